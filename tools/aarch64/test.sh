#!/usr/bin/env bash
# Cross-compile C++ tests for AArch64, and run them under qemu-user. `make test-aarch64` calls it.
#
#   tools/aarch64/test.sh [FOLDER...]     folders of tests/; without any, those that need one process and little time
#
# Emulation is about 20 times slower than the machine. Needs Debian's g++-aarch64-linux-gnu and qemu-user
# (tools/install_deps.sh --aarch64), and the packages that tools/aarch64/sysroot.sh fetches.
set -euo pipefail
cd "$(dirname "$0")/../.."

(($#)) || set -- kernels
for tool in aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v "$tool" > /dev/null || { echo "test-aarch64: no $tool: tools/install_deps.sh --aarch64" >&2; exit 1; }
done
sysroot=$PWD/build/aarch64/sysroot
build=build/aarch64/build
tools/aarch64/sysroot.sh "$sysroot"
cmake -S . -B "$build" -G Ninja --toolchain "$PWD/cmake/aarch64-linux-gnu.cmake" -DUNISONO_SYSROOT="$sysroot" \
  -DCMAKE_BUILD_TYPE=Release -DUNISONO_TESTS=ON -DUNISONO_HWLOC=OFF > /dev/null
labels="^($(IFS='|'; echo "$*"))\$"
mapfile -t programs < <(ctest --test-dir "$build" -N -L "$labels" | sed -nE 's/^ *Test +#[0-9]+: ([a-z_]+_test)$/\1/p')
((${#programs[@]})) || { echo "test-aarch64: no test in $*" >&2; exit 1; }
cmake --build "$build" --target "${programs[@]}"
ctest --test-dir "$build" -L "$labels" --output-on-failure --no-tests=error --timeout 3600

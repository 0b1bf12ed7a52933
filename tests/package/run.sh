#!/usr/bin/env bash
# Install to a temporary prefix, build the outside project against it, run it on four ranks, and look at what the library shows.
#
#   tests/package/run.sh [BUILD_DIR]     a configured build (default: build/release, configured when absent)
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/release}

fail() {
  echo "tests/package: $*" >&2
  exit 1
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

[[ -f $build/CMakeCache.txt ]] || cmake --preset release > "$scratch/log" || { cat "$scratch/log"; fail "configuration"; }
cmake --build "$build" --target unisono unisono_command > "$scratch/log" || { cat "$scratch/log"; fail "build"; }
cmake --install "$build" --prefix "$scratch/first" > "$scratch/log" || { cat "$scratch/log"; fail "installation"; }
# An installation may be moved: nothing in it may name where it was.
mv "$scratch/first" "$scratch/prefix"
prefix=$scratch/prefix

for file in bin/unisono include/unisono/unisono.hpp; do
  [[ -e $prefix/$file ]] || fail "$file was not installed"
done
library=$(find "$prefix" -name libunisono.so)
[[ -n $library ]] || fail "libunisono.so was not installed"

echo "- outside project: find_package, build, four ranks"
cmake -S tests/package -B "$scratch/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" \
  > "$scratch/log" 2>&1 || { cat "$scratch/log"; fail "find_package(unisono) or configuration of the outside project"; }
cmake --build "$scratch/build" > "$scratch/log" 2>&1 || { cat "$scratch/log"; fail "build of the outside project"; }
env -u LD_LIBRARY_PATH timeout 60 "$prefix/bin/unisono" run -n 4 -- "$scratch/build/outside" > "$scratch/out" 2>&1 \
  || { cat "$scratch/out"; fail "the outside program failed"; }
for rank in 0 1 2 3; do
  grep -q "outside: $rank of 4 ok" "$scratch/out" || { cat "$scratch/out"; fail "rank $rank said nothing"; }
done

echo "- pkg-config: the same program without CMake"
pc=$(find "$prefix" -name unisono.pc)
[[ -n $pc ]] || fail "unisono.pc was not installed"
export PKG_CONFIG_PATH=${pc%/*}
g++ -std=c++20 tests/package/outside.cc -o "$scratch/by_pkgconfig" $(pkg-config --cflags --libs unisono) \
  > "$scratch/log" 2>&1 || { cat "$scratch/log"; fail "build with pkg-config"; }
LD_LIBRARY_PATH=$(dirname "$library") timeout 60 "$prefix/bin/unisono" run -n 2 -- "$scratch/by_pkgconfig" > "$scratch/out" 2>&1 \
  || { cat "$scratch/out"; fail "the program that was built with pkg-config failed"; }
[[ $(grep -c "outside: [01] of 2 ok" "$scratch/out") == 2 ]] || { cat "$scratch/out"; fail "a rank said nothing"; }

echo "- FetchContent: configured within another project, whose program compiles"
cmake -S tests/package/fetched -B "$scratch/fetched" -G Ninja -DUNISONO_SOURCES="$PWD" > "$scratch/log" 2>&1 \
  || { cat "$scratch/log"; fail "FetchContent"; }
target=$(ninja -C "$scratch/fetched" -t targets all | sed -nE 's/^(CMakeFiles\/outside\.dir\/.*\.o): .*/\1/p')
ninja -C "$scratch/fetched" "$target" > "$scratch/log" 2>&1 || { cat "$scratch/log"; fail "a program of the fetching project"; }
if [[ -n ${UNISONO_TEST_LONG:-} ]]; then
  ninja -C "$scratch/fetched" outside > "$scratch/log" 2>&1 || { tail "$scratch/log"; fail "linking in the fetching project"; }
  timeout 60 "$prefix/bin/unisono" run -n 2 -- "$scratch/fetched/outside" > "$scratch/out" || fail "the fetching project's program failed"
fi

echo "- an incompatible version is refused"
if cmake -S tests/package/incompatible -B "$scratch/incompatible" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" > "$scratch/log" 2>&1; then
  fail "find_package(unisono 99) succeeded"
fi
grep -q 'unisonoConfig.cmake, version: [0-9.]*' "$scratch/log" || { cat "$scratch/log"; fail "the version was not what was refused"; }

echo "- symbols: nothing but the API"
nm -D --defined-only "$library" | awk '{print $3}' | c++filt > "$scratch/symbols"
grep -q '^unisono::init(' "$scratch/symbols" || fail "unisono::init is not exported"
if grep -vE '^(typeinfo for |typeinfo name for |vtable for )?unisono::' "$scratch/symbols"; then
  fail "the library exports the symbols above, which are not its API"
fi
if grep -E 'unisono::(base|kernels|plan|transport|rendezvous|engine|group|cli)::' "$scratch/symbols" | head; then
  fail "the library exports the internals above"
fi
echo "- ok: $(wc -l < "$scratch/symbols") symbols"

# What builds with one CMake another may refuse: the system's, which is not always the first in the path.
system=/usr/bin/cmake
if [[ -x $system && "$("$system" --version)" != "$(cmake --version)" ]]; then
  echo "- $("$system" --version | head -n 1): the system's configures it, too"
  "$system" --preset release -B "$scratch/system" -DUNISONO_TESTS=OFF > "$scratch/log" 2>&1 || { cat "$scratch/log"; fail "configuration"; }
fi

if [[ -n ${UNISONO_TEST_LONG:-} ]] && command -v dpkg-shlibdeps > /dev/null; then
  echo "- make deb: three packages that depend on what they need"
  make deb > "$scratch/log" 2>&1 || { tail -n 20 "$scratch/log"; fail "make deb"; }
  for package in dist/*.deb; do
    dpkg-deb -x "$package" "$scratch/root"
    echo "$(dpkg-deb -f "$package" Package): $(dpkg-deb -f "$package" Depends)"
  done > "$scratch/packages"
  grep -qE '^libunisono[0-9.]+: .*libstdc\+\+6' "$scratch/packages" || { cat "$scratch/packages"; fail "the library's dependencies"; }
  grep -qE '^unisono: libunisono[0-9.]+ \(= ' "$scratch/packages" || { cat "$scratch/packages"; fail "the command's dependencies"; }
  LD_LIBRARY_PATH=$(dirname "$(find "$scratch/root" -name 'libunisono.so.*' | head -n 1)") timeout 60 "$scratch/root/usr/bin/unisono" \
    bench all_reduce -n 2 --sizes 8 --check > "$scratch/log" 2>&1 || { tail "$scratch/log"; fail "the packages' command"; }
fi

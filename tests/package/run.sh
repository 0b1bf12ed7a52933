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

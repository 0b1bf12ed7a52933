#!/usr/bin/env bash
# Install a wheel into an empty environment where the system's compilers and the libraries that unisono is built with are hidden, and run the
# command and NumPy.
#
#   tests/package/wheel.sh WHEEL [PYTHON]     PYTHON defaults to python3; with UNISONO_TEST_TORCH=1 its torch is used, too
#
# Needs a kernel that lets this user make a mount namespace; without it nothing could be hidden, and the test fails.
set -euo pipefail
cd "$(dirname "$0")/../.."

wheel=$(realpath "${1:?which wheel}")
python=$(command -v "${2:-python3}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "tests/package/wheel: $*" >&2
  exit 1
}

size=$(stat -c %s "$wheel")
((size <= 8 * 1024 * 1024)) || fail "$wheel has $size bytes"
"$python" -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip --disable-pip-version-check -q install "$wheel" 2> "$scratch/log" || { cat "$scratch/log"; fail "installation"; }

cat > "$scratch/sum.py" << 'EOF'
import numpy as np
import unisono

world = unisono.init()
x = np.full(100_000, float(world.rank))
world.all_reduce(x)
assert (x == world.size * (world.size - 1) / 2).all()
try:
    world.broadcast(x, root=world.size)
    raise SystemExit("a root that is not there was taken")
except unisono.InvalidArgument as error:
    assert "out of range" in str(error)
loaded = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
system = [name for name in loaded if any(part in name for part in ("libfmt", "libspdlog", "libhwloc", "libcrypto", "libudev"))]
print(f"rank {world.rank} of {world.size}: ok; the system's: {' '.join(sorted(system)) or 'none'}")
EOF

# Within the namespace: empty files over the libraries, and over the compilers.
cat > "$scratch/hidden.sh" << 'EOF'
set -euo pipefail
shopt -s nullglob
for file in /usr/lib/*/lib{fmt,spdlog,hwloc,crypto,ssl,udev}.so.* /usr/lib64/lib{fmt,spdlog,hwloc,crypto,ssl,udev}.so.* \
  /usr/bin/{cc,c++,gcc,g++,clang,clang++,cmake,ninja}*; do
  mount --bind /dev/null "$(realpath "$file")" 2> /dev/null || true
done
! c++ --version > /dev/null 2>&1 || { echo "the compiler is not hidden"; exit 1; }
cd "$1"
export PATH=$1/venv/bin:/usr/bin:/bin
unset LD_LIBRARY_PATH LD_PRELOAD PYTHONPATH
unisono plan --list > /dev/null
unisono bench all_reduce -n 2 --sizes 8,64K --check
unisono run -n 4 -- python sum.py
EOF
unshare --user --map-root-user --mount bash "$scratch/hidden.sh" "$scratch" > "$scratch/out" 2>&1 || { cat "$scratch/out"; fail "with the system's copies hidden"; }
[[ $(grep -c "of 4: ok; the system's: none" "$scratch/out") == 4 ]] || { cat "$scratch/out"; fail "not all ranks were well, or a library came from the system"; }
echo "tests/package/wheel: ok, $(basename "$wheel"), $((size / 1024)) KiB"

#!/usr/bin/env bash
# Install the library on another release of Debian or Ubuntu, in a folder of its own, and run a program.
#
#   tools/test_distribution.sh trixie|bookworm|noble|jammy [python]
#
# debootstrap puts the release into build/distributions/NAME, which stays. There, in a mount namespace,
# the commands of docs/install.md run: what building needs, the C++ library, a program by pkg-config,
# and with "python" the package into a virtual environment. Needs root, debootstrap and the network.
# Exit status 77, with the reason as the last line: this release cannot be had here.
set -euo pipefail
cd "$(dirname "$0")/.."

suite=${1:?a release: trixie, bookworm, noble or jammy}
case $suite in
  trixie | bookworm) mirror=http://deb.debian.org/debian components=main keyring=debian-archive-keyring ;;
  noble | jammy) mirror=http://archive.ubuntu.com/ubuntu components=main,universe keyring=ubuntu-archive-keyring ;;
  *) echo "test-distribution: no \"$suite\": trixie, bookworm, noble or jammy" >&2; exit 2 ;;
esac
absent() {
  echo "test-distribution: SKIPPED: $*"
  exit 77
}
[[ $(id -u) == 0 ]] || absent "debootstrap needs root"
command -v debootstrap > /dev/null || absent "no debootstrap: apt-get install debootstrap"
keys=/usr/share/keyrings/$keyring.gpg
[[ -f $keys ]] || absent "no $keys: install the package ${keyring%-archive-keyring}-archive-keyring, or ${keyring%-archive-keyring}-keyring from $mirror"

root=$PWD/build/distributions/$suite
if [[ ! -e $root/.complete ]]; then
  rm -rf "$root" && mkdir -p "$root"
  # An older debootstrap does not know a newer release's name; one script serves all of Ubuntu's.
  script=/usr/share/debootstrap/scripts/$suite
  [[ -e $script ]] || script=/usr/share/debootstrap/scripts/gutsy
  echo "test-distribution: $suite into $root"
  debootstrap --variant=minbase --components="$components" --include=ca-certificates --keyring="$keys" \
    "$suite" "$root" "$mirror" "$script" > "$root.log" 2>&1 || absent "debootstrap: $(tail -n 1 "$root.log")"
  touch "$root/.complete"
fi
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/unisono"
git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -T - -c | tar -x -C "$root/unisono"

cat > "$root/unisono-test.sh" << 'EOF'
set -euo pipefail
cd /unisono
. /etc/os-release
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
run() { "$@" > /log 2>&1 || { tail -n 40 /log; echo "test-distribution: failed: $*"; exit 1; }; }
run apt-get update
echo "- $PRETTY_NAME: tools/install_deps.sh build"
run tools/install_deps.sh build
g++ --version | head -n 1; cmake --version | head -n 1
echo "- the C++ library"
run cmake --preset library
run cmake --build --preset library
run cmake --install build/library
run ldconfig
echo "- a program, by pkg-config"
run g++ -std=c++20 tests/package/outside.cc -o /outside $(pkg-config --cflags --libs unisono)
run unisono run -n 2 -- /outside
if [[ ${1:-} == python ]]; then
  echo "- the Python package"
  run apt-get install -y --no-install-recommends python3-dev python3-venv
  run python3 -m venv /venv
  run /venv/bin/pip install . numpy
  printf 'import numpy, unisono\nw = unisono.init()\nx = numpy.ones(4)\nw.all_reduce(x)\nassert (x == 2).all()\n' > /sum.py
  run /venv/bin/unisono run -n 2 -- /venv/bin/python /sum.py
fi
echo "test-distribution: ok on $PRETTY_NAME"
EOF
unshare --mount bash -c '
  for place in proc dev sys; do mount --rbind /$place "$1/$place"; done
  exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root chroot "$1" bash /unisono-test.sh "${@:2}"
' bash "$root" "${@:2}"

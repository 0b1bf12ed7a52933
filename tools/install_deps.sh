#!/usr/bin/env bash
# Install what this project needs from the system, with apt (Debian, Ubuntu) or dnf (Fedora and its kin), and only what is missing.
#
#   tools/install_deps.sh build      to build the library, the command and the Python package
#   tools/install_deps.sh            the same, and to run the tests
#   tools/install_deps.sh --aarch64  what the tests need, and to cross-compile for AArch64 and run that (Debian, Ubuntu)
#   tools/install_deps.sh --peers    what the tests need, and what bench/compare measures beside unisono: Open MPI and MPICH
#
# As root it installs. Otherwise it names the missing packages in one line to copy, and fails. When nothing is missing it does
# nothing, quickly, and needs no root and no network.
set -euo pipefail
cd "$(dirname "$0")/.."

what=${1:-test}
case $what in
  build | test | --aarch64 | --peers) ;;
  *)
    echo "install_deps: no \"$what\": it takes nothing, build, --aarch64 or --peers" >&2
    exit 2
    ;;
esac
if [[ $(uname -s) != Linux ]]; then
  echo "install_deps: unisono builds on Linux only, not on $(uname -s); a container or a virtual machine with Linux will do" >&2
  exit 1
fi

# A Python with headers and ensurepip may come from elsewhere (pyenv, python.org); the system's is asked for only without one.
own_python=yes
tools/find_python.sh > /dev/null 2>&1 || own_python=no

apt_packages() {
  echo g++ cmake ninja-build pkg-config libfmt-dev libspdlog-dev libcli11-dev nlohmann-json3-dev libssl-dev libhwloc-dev
  [[ $own_python == yes ]] || echo python3 python3-dev python3-venv
  [[ $what == build ]] || echo ccache libgtest-dev libgmock-dev libbenchmark-dev iproute2
  [[ $what != --aarch64 ]] || echo g++-aarch64-linux-gnu qemu-user
  [[ $what != --peers ]] || echo openmpi-bin libopenmpi-dev mpich libmpich-dev
}

dnf_packages() {
  echo gcc-c++ cmake ninja-build pkgconf-pkg-config fmt-devel spdlog-devel cli11-devel json-devel openssl-devel hwloc-devel
  [[ $own_python == yes ]] || echo python3 python3-devel
  [[ $what == build ]] || echo ccache gtest-devel gmock-devel google-benchmark-devel iproute
  [[ $what != --peers ]] || echo openmpi-devel mpich-devel
}

# One call for all: a query a package would take most of a second.
installed_with_apt() { dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2> /dev/null | sed -n 's/ installed$//p'; }
installed_with_dnf() { rpm -q --qf '%{NAME}\n' "$@" 2> /dev/null; }

if command -v apt-get > /dev/null && command -v dpkg-query > /dev/null; then
  manager=apt
  install="apt-get install -y --no-install-recommends"
elif command -v dnf > /dev/null; then
  manager=dnf
  install="dnf install -y --setopt=install_weak_deps=False"
else
  # Another distribution: ask for the tools. CMake names the libraries that it does not find.
  missing=()
  for tool in g++ cmake ninja pkg-config; do
    command -v "$tool" > /dev/null || missing+=("$tool")
  done
  ((${#missing[@]})) || exit 0
  echo "install_deps: neither apt nor dnf is here; install by this system's own means: ${missing[*]}," >&2
  echo "  and the development packages of fmt, spdlog, CLI11, nlohmann-json, OpenSSL and hwloc" >&2
  exit 1
fi

read -ra packages <<< "$("${manager}_packages" | tr '\n' ' ')"
installed=$("installed_with_$manager" "${packages[@]}" || true)
missing=()
for package in "${packages[@]}"; do
  grep -qxF "$package" <<< "$installed" || missing+=("$package")
done
((${#missing[@]})) || exit 0

if [[ $(id -u) != 0 ]]; then
  echo "install_deps: packages are missing, and installing them needs root. Copy this line:" >&2
  echo "  sudo $install ${missing[*]}" >&2
  exit 1
fi

echo "install_deps: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if [[ $manager == apt ]]; then
  apt-get update > "$log" 2>&1 < /dev/null || true  # the installation says what it could not find
fi
if ! $install "${missing[@]}" > "$log" 2>&1 < /dev/null; then
  tail -n 40 "$log" >&2
  echo "install_deps: $manager could not install: ${missing[*]} (its last lines are above)" >&2
  exit 1
fi

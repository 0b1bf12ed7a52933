#!/usr/bin/env bash
# Install what building and testing need from Debian, and only what is missing.
#
#   tools/install_deps.sh            build and test
#   tools/install_deps.sh --peers    also what bench/compare measures beside unisono: Open MPI and MPICH
#
# As root it installs with apt. Otherwise it names the missing packages in one line to copy, and fails. When nothing is
# missing it does nothing, quickly, and needs no root and no apt.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  g++ cmake ninja-build ccache
  libfmt-dev libspdlog-dev libcli11-dev nlohmann-json3-dev libssl-dev  # the library and the command
  pkg-config libhwloc-dev                                             # NUMA nodes
  libgtest-dev libgmock-dev libbenchmark-dev                          # tests and micro-benchmarks
  iproute2                                                            # tests with network namespaces, `unisono doctor`
)
# A Python with headers and ensurepip may come from elsewhere (pyenv, python.org); Debian's is asked for only without one.
if ! tools/find_python.sh > /dev/null 2>&1; then
  packages+=(python3 python3-dev python3-venv)
fi
if [[ ${1:-} == --peers ]]; then
  packages+=(openmpi-bin libopenmpi-dev mpich libmpich-dev)
fi

have_packages() { command -v dpkg-query > /dev/null; }

missing=()
if have_packages; then
  # One call for all: a query a package would take most of a second.
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2> /dev/null || true)
  for package in "${packages[@]}"; do
    grep -qx "$package installed" <<< "$installed" || missing+=("$package")
  done
else
  # Another distribution: ask for the tools, and let CMake name the libraries that it does not find.
  for tool in g++ cmake ninja ccache; do
    command -v "$tool" > /dev/null || missing+=("$tool")
  done
  if ((${#missing[@]})); then
    echo "install_deps: this is not a Debian system; install by its own means: ${missing[*]}" >&2
    echo "  and the development packages of fmt, spdlog, CLI11, nlohmann-json, OpenSSL, GoogleTest, google-benchmark" >&2
    exit 1
  fi
fi

((${#missing[@]})) || exit 0

if [[ $(id -u) != 0 ]]; then
  echo "install_deps: Debian packages are missing, and installing them needs root. Copy this line:" >&2
  echo "  sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
  exit 1
fi

echo "install_deps: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } > "$log" 2>&1 < /dev/null; then
  tail -n 40 "$log" >&2
  echo "install_deps: apt could not install: ${missing[*]} (its last lines are above)" >&2
  exit 1
fi

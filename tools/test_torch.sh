#!/usr/bin/env bash
# Run the back end's tests on another torch:   tools/test_torch.sh 2.14.1 [ARGUMENT OF PYTEST ...]
#
# Everything lies in build/torch-VERSION, a virtual environment of its own (a CUDA build of torch takes 5 GB), and is used
# again by the next run. The package is built there as a user's pip builds it; the back end is compiled for that torch.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?a version of torch, for example 2.14.1}
shift
venv=build/torch-$version
if ! "$venv/bin/python" -c pass 2> /dev/null; then
  "$(tools/find_python.sh)" -m venv --clear "$venv"
fi
if command -v ccache > /dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
pip=("$venv/bin/python" -m pip --disable-pip-version-check -q)
echo "test-torch: torch $version into $venv"
"${pip[@]}" install "torch==$version" expecttest tabulate -r tools/requirements-build.txt -r tools/requirements-dev.txt
"${pip[@]}" install --no-build-isolation --no-deps --force-reinstall \
  --config-settings=build-dir="build/python-torch-$version" .
PATH="$PWD/$venv/bin:$PATH"
export PATH UNISONO_TUNING=off
"$venv/bin/python" -m unisono.torch._build
exec "$venv/bin/python" -m pytest -q -m "not long" "$@" tests/torch

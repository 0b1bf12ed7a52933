#!/usr/bin/env bash
# Run the back end's tests on another torch:   tools/test_torch.sh 2.14.1 [ARGUMENT OF PYTEST ...]
#
# Everything lies in build/torch-VERSION, a virtual environment of its own, and is used again by the
# next run (a CUDA build of torch takes 5 GB). TORCH_VENV=FOLDER uses an existing one, which has
# this torch. The package is built there as a user's pip builds it; the back end is compiled for
# that torch. With UNISONO_TEST_LONG=1 the long tests run, too. Exit status 77, with the reason as
# the last line: this torch cannot be had here.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?a version of torch, for example 2.14.1}
shift
absent() {
  echo "test-torch: SKIPPED: $*"
  exit 77
}

venv=$(realpath -m "${TORCH_VENV:-build/torch-$version}")
installed=$("$venv/bin/python" -c 'import importlib.metadata as m; print(m.version("torch").split("+")[0])' 2> /dev/null || true)
if [[ -n ${TORCH_VENV:-} && $installed != "$version" ]]; then
  absent "TORCH_VENV=$TORCH_VENV has torch ${installed:-of no version}, and not $version"
fi
pip=("$venv/bin/python" -m pip --disable-pip-version-check -q)
if [[ $installed != "$version" ]]; then
  mkdir -p build
  free=$(df --output=avail -k build | tail -n 1)
  ((free > 10 * 1024 * 1024)) || absent "torch $version takes 5 GB, and its download as much; $((free / 1024)) MiB are free"
  "$(tools/find_python.sh)" -m venv --clear "$venv"
  echo "test-torch: torch $version into $venv"
  "${pip[@]}" install "torch==$version" || absent "pip cannot install torch==$version"
fi
"${pip[@]}" install expecttest tabulate -r tools/requirements-build.txt -r tools/requirements-dev.txt ||
  absent "pip cannot install what the tests need"

# As `make build` compiles it, so that what ccache has from there is used.
if command -v ccache > /dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=true; fi
export CCACHE_SLOPPINESS=pch_defines,time_macros CXX=${CXX:-g++}
werror=$([[ $("$CXX" -dumpversion) == 12* ]] && echo ON || echo OFF)
echo "test-torch: the package into $venv"
"${pip[@]}" install --no-build-isolation --no-deps --force-reinstall --config-settings=build-dir="build/python-torch-$version" \
  --config-settings=cmake.define.UNISONO_WERROR="$werror" --config-settings=cmake.define.UNISONO_TORCH=OFF .
PATH="$venv/bin:$PATH"
export PATH UNISONO_TUNING=off CUDA_VISIBLE_DEVICES=
"$venv/bin/python" -m unisono.torch._build
selection=(-m "not long")
if [[ -n ${UNISONO_TEST_LONG:-} ]]; then selection=(); fi
exec "$venv/bin/python" -m pytest -q ${selection[@]+"${selection[@]}"} "$@" tests/torch

# make help lists the targets. Everything is installed into .venv and build/; `make clean` removes both.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
STAMPS := $(VENV)/.stamps
# What one checkout compiled serves another one, and one build folder the next.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := true
# A precompiled header is told by what it was made of.
export CCACHE_SLOPPINESS := pch_defines,time_macros
# Compilers run under ccache where it is installed.
LAUNCHER = $(if $(shell command -v ccache),CMAKE_CXX_COMPILER_LAUNCHER=ccache)
# One name for the compiler everywhere: ccache takes /usr/bin/c++ and /usr/bin/g++ for two.
ifeq ($(origin CXX),default)
CXX := g++
endif
export CXX
# Warnings are errors with the compiler that CI uses; another one may know more of them. Override with make WERROR=ON|OFF.
WERROR = $(if $(filter 12,$(shell $(CXX) -dumpversion 2> /dev/null)),ON,OFF)
# make test STAGES="layers cpp": only these (tools/run_tests.py --help)
STAGES ?=

# All that the installed package is made of: newer than the stamp means build again.
SOURCES = $(shell find src include bindings python cmake -type f -not -name '*.pyc' 2> /dev/null) CMakeLists.txt pyproject.toml README.md

.PHONY: help
help: ## this list
	@echo "unisono: targets"
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

.PHONY: deps
deps: ## install the packages that the tests need and that are missing (as root), or name them
	@tools/install_deps.sh

# What building alone needs: no GoogleTest, no benchmark, no ccache.
.PHONY: deps-build
deps-build:
	@tools/install_deps.sh build

.PHONY: build
build: $(STAMPS)/package ## the command .venv/bin/unisono and the Python package, installed into .venv

# Downloads and compilers side by side: neither waits for the other.
.PHONY: ready
ready:
	@$(MAKE) -j2 $(STAMPS)/torch-backend

.PHONY: demo
demo: ready ## train a classifier on real data with four ranks, and plot what it cost
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python examples/demo.py

.PHONY: test
test: deps ready ## everything CI checks; STAGES="layers cpp" for a part
	@$(BIN)/python tools/run_tests.py --werror $(WERROR) $(STAGES)

.PHONY: test-long
test-long: deps ready ## the same with more seeds, and every sanitizer over every C++ test
	@tools/launchers.sh
	@$(BIN)/python tools/run_tests.py --long --werror $(WERROR) $(STAGES)

# FOLDERS="base kernels plan": these folders of tests/
FOLDERS ?=
.PHONY: test-aarch64
test-aarch64: ## C++ tests of the NEON kernels, cross-compiled for AArch64, under qemu-user; FOLDERS="base plan" for others
	@tools/install_deps.sh --aarch64
	@$(LAUNCHER) tools/aarch64/test.sh $(FOLDERS)

.PHONY: test-launchers
test-launchers: ready ## programs under Open MPI, MPICH, Intel MPI and Slurm (installs them, as root)
	@tools/launchers.sh
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -q tests/process/test_foreign_launchers.py

# As users have it, and no other test depends on it: a CUDA build of torch takes 5 GB.
VERSION ?= 2.14.1
.PHONY: test-torch
test-torch: ready ## the tests of the PyTorch back end on another torch; VERSION=2.14.1 (5 GB)
	@tools/test_torch.sh $(VERSION)

# A whole build each, as a newcomer has it: no other test depends on it.
SUITE ?= trixie
.PHONY: test-distro
test-distro: ## install on another release by debootstrap, as root; SUITE=trixie|bookworm|noble|jammy
	@tools/test_distribution.sh $(SUITE)

.PHONY: lint
lint: deps $(STAMPS)/dev ## layers, formatting, ruff, mypy --strict
	@$(BIN)/python tools/run_tests.py layers style

.PHONY: tidy
tidy: deps $(STAMPS)/tidy ## clang-tidy over the sources, 25 minutes; FILES="src/engine" for a part
	@cmake --preset release -B build/tidy -DUNISONO_UNITY=OFF -DUNISONO_PRECOMPILE=OFF > /dev/null
	@$(BIN)/python tools/tidy.py $(FILES)

.PHONY: format
format: deps $(STAMPS)/dev ## format C++ and Python in place
	@git ls-files -z --cached --others --exclude-standard -- '*.cc' '*.cpp' '*.h' '*.hpp' | xargs -0 -r $(BIN)/clang-format -i
	@$(BIN)/ruff format -q . && $(BIN)/ruff check -q --fix .

# WHEEL_PYTHONS="python3.10 python3.11 python3.12": a wheel for each; one of 3.12 serves all later ones.
WHEEL_PYTHONS ?=
.PHONY: wheel
wheel: deps-build $(STAMPS)/wheel ## dist/: a wheel that needs no compiler and no system library
	@$(LAUNCHER) tools/wheel/build.sh $(BIN)/python $(WHEEL_PYTHONS)

.PHONY: deb
deb: deps-build ## dist/: Debian packages of the library, of its headers, and of the command
	@command -v dpkg-shlibdeps file > /dev/null || { echo "make deb: needs: apt-get install dpkg-dev file" >&2; exit 1; }
	@echo "deb: compiling (a few minutes the first time)"
	@$(LAUNCHER) cmake --preset library -B build/deb -DCMAKE_INSTALL_PREFIX=/usr > /dev/null
	@cmake --build build/deb
	@rm -rf build/deb/packages && cd build/deb && cpack -B packages > cpack.log || { tail -n 20 cpack.log >&2; exit 1; }
	@mkdir -p dist && mv build/deb/packages/*.deb dist && ls dist/*.deb

.PHONY: docs
docs: build ## write the list of algorithms into docs/algorithms.md
	@{ sed '/^collective  /,$$d' docs/algorithms.md; $(BIN)/unisono plan --list; echo '```'; } > build/algorithms.md
	@mv build/algorithms.md docs/algorithms.md

.PHONY: bench-compare
bench-compare: ready ## measure unisono beside Gloo, Open MPI and MPICH (installs them)
	@bench/compare --install
	@PATH="$(CURDIR)/$(BIN):$$PATH" bench/compare

.PHONY: clean
clean: ## remove what was built, and .venv
	rm -rf build dist $(VENV) out

# --- how .venv comes to be -----------------------------------------------------------------------------------------

# The interpreter that a .venv was made with may have gone since, or the folder was moved: then it is made anew.
ifneq ($(shell test -x $(BIN)/python && $(BIN)/python -m pip --version > /dev/null 2>&1 && echo usable),usable)
$(shell rm -rf $(STAMPS))
endif

$(STAMPS)/venv: | deps-build
	@python=$$(tools/find_python.sh); echo "venv: .venv with $$python"; "$$python" -m venv --clear $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/requirements: tools/requirements-build.txt $(STAMPS)/venv
	@echo "venv: what building needs"
	@$(PIP) install -r $<
	@touch $@

$(STAMPS)/dev: tools/requirements-dev.txt $(STAMPS)/requirements
	@echo "venv: what tests and examples need"
	@$(PIP) install -r $<
	@touch $@

$(STAMPS)/tidy: tools/requirements-tidy.txt $(STAMPS)/dev
	@echo "venv: clang-tidy"
	@$(PIP) install -r $<
	@touch $@

$(STAMPS)/wheel: tools/requirements-wheel.txt $(STAMPS)/requirements
	@echo "venv: auditwheel"
	@$(PIP) install -r $<
	@touch $@

$(STAMPS)/torch: tools/requirements-torch.txt $(STAMPS)/dev
	@echo "venv: torch, which the tests use"
	@$(PIP) install -r $<
	@touch $@

# The PyTorch back end, in the user's cache: compiled after the package, which does not need torch to be built.
$(STAMPS)/torch-backend: $(STAMPS)/package $(STAMPS)/torch
	@$(LAUNCHER) $(BIN)/python -m unisono.torch._build
	@touch $@

# Built in build/python, which stays: only what changed is compiled. Ninja's progress is shown, the rest is in the log.
$(STAMPS)/package: $(SOURCES) $(STAMPS)/requirements | deps-build
	@mkdir -p build
	@echo "build: the package (a few minutes the first time; all of it in build/package.log)"
	@$(LAUNCHER) $(BIN)/python -m pip --disable-pip-version-check install -v --no-build-isolation --no-deps \
	    --force-reinstall --config-settings=cmake.define.UNISONO_WERROR=$(WERROR) \
	    --config-settings=cmake.define.UNISONO_TORCH=OFF . 2>&1 | tee build/package.log \
	  | { grep --line-buffered -E '^ *\[[0-9]+/[0-9]+\] [BL]' | stdbuf -oL cut -c1-120 || true; } \
	  || { grep -E -A 8 'error:|CMake Error' build/package.log | head -n 40 >&2; echo "make build: failed; all of it is in build/package.log" >&2; exit 1; }
	@test ! -x $(BIN)/unisono || $(BIN)/unisono --help > /dev/null
	@touch $@
	@echo "build: .venv/bin/unisono and the Python package are in place"

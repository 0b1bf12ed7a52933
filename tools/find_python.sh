#!/usr/bin/env bash
# Print the path of a Python that can make the virtual environment: 3.10 or newer, with its C headers and ensurepip.
# $PYTHON, when set, is the only candidate. Fails when there is none, saying what each candidate lacks.
set -euo pipefail

probe='
import os, sys, sysconfig
if sys.version_info < (3, 10):
    sys.exit("is %d.%d, older than 3.10" % sys.version_info[:2])
if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
    sys.exit("has no Python.h")
try:
    import ensurepip, venv
except ImportError as error:
    sys.exit("cannot make a virtual environment: %s" % error)
print(sys.executable)'

reasons=()
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10 /usr/bin/python3}; do
  path=$(command -v "$candidate") || continue
  if answer=$("$path" -I -c "$probe" 2>&1); then
    echo "$answer"
    exit 0
  fi
  reasons+=("  $path ${answer##*$'\n'}")
done
{
  echo "find_python: no usable Python; wanted: 3.10 or newer with headers and venv (Debian: python3-dev python3-venv)"
  ((${#reasons[@]} == 0)) || printf '%s\n' "${reasons[@]}"
} >&2
exit 1

"""tools/install_deps.sh: a no-op when nothing is missing; without root it names what is missing and fails."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "install_deps.sh"


@pytest.fixture
def fakes(tmp_path: Path) -> Path:
    """A folder for programs that come first on PATH; apt-get there fails, for no test may install anything."""
    program(tmp_path, "apt-get", 'echo "apt-get was called" >&2; exit 1')
    program(tmp_path, "id", "echo 1000")
    return tmp_path


def program(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)


def install(fakes: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{fakes}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run([SCRIPT], env=env, capture_output=True, text=True, timeout=60, check=False)


def test_nothing_missing_is_quick_and_silent(fakes: Path) -> None:
    # Everything that is asked for is installed.
    program(fakes, "dpkg-query", 'for package in "${@:4}"; do echo "$package installed"; done')
    start = time.monotonic()
    answer = install(fakes)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    assert time.monotonic() - start < 5


def test_without_root_the_missing_are_named_in_a_line_to_copy(fakes: Path) -> None:
    program(
        fakes,
        "dpkg-query",
        """for package in "${@:4}"; do
             case $package in
               libfmt-dev) ;;
               ninja-build) echo "$package config-files" ;;
               *) echo "$package installed" ;;
             esac
           done
           exit 1""",
    )
    answer = install(fakes)
    assert answer.returncode == 1
    assert answer.stdout == ""
    line = next(line for line in answer.stderr.splitlines() if "apt-get install" in line)
    assert line.split()[-2:] == ["ninja-build", "libfmt-dev"]
    assert "apt-get was called" not in answer.stderr


def test_a_failing_apt_is_shown(fakes: Path) -> None:
    program(fakes, "dpkg-query", "exit 1")
    program(fakes, "id", "echo 0")
    answer = install(fakes)
    assert answer.returncode == 1
    assert "apt-get was called" in answer.stderr
    assert "could not install" in answer.stderr

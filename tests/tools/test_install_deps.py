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


def install(fakes: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{fakes}{os.pathsep}{path or os.environ['PATH']}"}
    return subprocess.run([SCRIPT, *arguments], env=env, capture_output=True, text=True, timeout=60, check=False)


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
    assert line.split()[:3] == ["sudo", "apt-get", "install"]
    assert "apt-get was called" not in answer.stderr


def test_a_failing_apt_is_shown(fakes: Path) -> None:
    program(fakes, "dpkg-query", "exit 1")
    program(fakes, "id", "echo 0")
    answer = install(fakes)
    assert answer.returncode == 1
    assert "apt-get was called" in answer.stderr
    assert "could not install" in answer.stderr


def test_building_alone_asks_for_no_test_framework_and_no_cache(fakes: Path) -> None:
    program(fakes, "dpkg-query", "exit 1")
    tests_too = install(fakes).stderr
    alone = install(fakes, "build").stderr
    for package in ("ccache", "libgtest-dev", "libgmock-dev", "libbenchmark-dev"):
        assert package in tests_too
        assert package not in alone
    assert "libfmt-dev" in alone


def without_apt(fakes: Path) -> str:
    """A path of the system's programs but for apt's; the first folder's apt-get is gone, too."""
    (fakes / "apt-get").unlink()
    system = fakes / "system"
    system.mkdir()
    for folder in ("/bin", "/usr/bin"):
        for tool in Path(folder).iterdir():
            link = system / tool.name
            if not tool.name.startswith(("apt", "dpkg", "dnf", "rpm")) and not link.is_symlink():
                link.symlink_to(tool)
    return str(system)


def test_fedora_is_told_its_own_packages_and_command(fakes: Path) -> None:
    path = without_apt(fakes)
    program(fakes, "dnf", 'echo "dnf was called: $*" >&2; exit 1')
    program(
        fakes,
        "rpm",
        'for p in "${@:4}"; do [ $p = fmt-devel ] && echo "package $p is not installed" || echo "$p"; done; exit 1',
    )
    answer = install(fakes, path=path)
    assert answer.returncode == 1
    line = next(line for line in answer.stderr.splitlines() if "dnf install" in line)
    assert line.split()[0] == "sudo"
    assert line.split()[-1] == "fmt-devel"
    assert "dnf was called" not in answer.stderr


def test_fedora_installs_as_root(fakes: Path) -> None:
    path = without_apt(fakes)
    program(fakes, "id", "echo 0")
    program(fakes, "dnf", f'echo "$*" > {fakes}/asked')
    program(fakes, "rpm", 'for p in "${@:4}"; do echo "package $p is not installed"; done; exit 1')
    answer = install(fakes, "build", path=path)
    assert answer.returncode == 0, answer.stderr
    asked = (fakes / "asked").read_text().split()
    assert asked[0] == "install"
    assert {"gcc-c++", "fmt-devel", "spdlog-devel", "cli11-devel", "json-devel", "openssl-devel"} <= set(asked)
    assert "gtest-devel" not in asked


def test_another_system_is_refused(fakes: Path) -> None:
    program(fakes, "uname", "echo Darwin")
    answer = install(fakes)
    assert answer.returncode == 1
    assert "Linux only, not on Darwin" in answer.stderr

"""What cannot be built is refused before anything is compiled, in one line that says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def configure(build: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = ["cmake", "-S", str(ROOT), "-B", str(build), "-G", "Ninja", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def the_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("unisono: ")]
    assert len(lines) == 1, text
    return lines[0]


@pytest.mark.parametrize("system", ["Darwin", "Windows", "FreeBSD"])
def test_another_system_is_refused_before_a_compiler_is_looked_for(tmp_path: Path, system: str) -> None:
    answer = configure(tmp_path, f"-DCMAKE_SYSTEM_NAME={system}", "-DCMAKE_CXX_COMPILER=/nowhere/c++")
    assert answer.returncode != 0
    assert the_line(answer.stderr).startswith(f"unisono: builds on Linux only, not on {system}; ")
    assert "compiler" not in answer.stdout + answer.stderr


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_pip_refuses_another_system_before_cmake_runs(tmp_path: Path, system: str) -> None:
    # scikit-build-core asks sys.platform, and nothing else.
    build = f"from scikit_build_core.build import build_wheel; build_wheel({str(tmp_path)!r})"
    program = f"import sys; sys.platform = {system!r}; {build}"
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert answer.returncode != 0
    assert "unisono builds on Linux only" in answer.stdout + answer.stderr
    assert list(tmp_path.iterdir()) == []


def test_all_that_is_missing_is_in_one_line_with_the_command_for_apt_and_dnf(tmp_path: Path) -> None:
    hidden = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("CLI11", "nlohmann_json", "OpenSSL")]
    line = the_line(configure(tmp_path, *hidden).stderr)
    assert line.startswith("unisono: missing: CLI11, nlohmann-json, OpenSSL; ")
    assert "apt-get install libcli11-dev nlohmann-json3-dev libssl-dev (" in line
    assert "dnf install cli11-devel json-devel openssl-devel (" in line


def test_pip_shows_what_is_missing_and_needs_neither_googletest_nor_benchmark_nor_ccache(tmp_path: Path) -> None:
    hidden = " ".join(f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("CLI11", "GTest", "benchmark"))
    pip = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", str(tmp_path / "wheels")]
    environment = {**os.environ, "CMAKE_ARGS": hidden}
    environment.pop("CMAKE_CXX_COMPILER_LAUNCHER", None)
    answer = subprocess.run(
        [*pip, f"--config-settings=build-dir={tmp_path / 'build'}", str(ROOT)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert answer.returncode != 0
    line = the_line(answer.stdout + answer.stderr)
    assert line.startswith("unisono: missing: CLI11; install: apt-get install libcli11-dev (")


def test_without_a_compiler_it_is_said_how_to_get_one(tmp_path: Path) -> None:
    # The CMake in the path may be a script that finds the real one: ask for that, and leave nothing
    # in the path.
    ask = tmp_path / "ask.cmake"
    ask.write_text("message(${CMAKE_COMMAND})\n")
    cmake = subprocess.run(["cmake", "-P", str(ask)], capture_output=True, text=True, check=True).stderr.strip()
    environment = {name: value for name, value in os.environ.items() if name not in ("CXX", "CMAKE_TOOLCHAIN_FILE")}
    # CMake looks into the system's folders as well, whatever the path is.
    options = ["-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF", "-DCMAKE_MAKE_PROGRAM=/bin/true"]
    answer = subprocess.run(
        [cmake, "-S", str(ROOT), "-B", str(tmp_path / "build"), "-G", "Ninja", *options],
        env={**environment, "PATH": str(tmp_path / "nothing")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert answer.returncode != 0
    assert "apt-get install g++ (" in the_line(answer.stderr)

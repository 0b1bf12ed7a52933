"""The examples run as their first lines say, in Python and in C++."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from harness import unisono_command
from harness.launch import environment

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples"
NUMBERED = sorted(path.stem for path in EXAMPLES.glob("[0-9][0-9]_*.py"))


def run(ranks: int, *command: str | Path, status: int = 0, limit: float = 90) -> str:
    """Run a program on so many ranks; what it printed."""
    whole = [unisono_command(), "run", "-n", str(ranks), "--", *map(str, command)]
    done = subprocess.run(whole, capture_output=True, text=True, env=environment({}), timeout=limit, check=False)
    assert done.returncode == status, f"status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the C++ examples: UNISONO_EXAMPLES_DIR, a build of this tree, or a build of our own."""
    for build in (os.environ.get("UNISONO_EXAMPLES_DIR"), ROOT / "build" / "release" / "examples"):
        if build and all((Path(build) / name).exists() for name in (*NUMBERED, "digits")):
            return Path(build)
    if shutil.which("cmake") is None:
        pytest.skip("no C++ examples: neither built in build/release nor is cmake there to build them")
    build = tmp_path_factory.mktemp("release")
    configure = ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DUNISONO_EXAMPLES=ON"]
    if shutil.which("ccache"):
        configure.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    for command in (configure, ["cmake", "--build", build, "--target", *NUMBERED, "digits"]):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return build / "examples"


def test_each_example_has_both_languages() -> None:
    assert len(NUMBERED) >= 5
    for name in (*NUMBERED, "digits"):
        for suffix, mark in ((".py", f"examples/{name}.py"), (".cpp", f"examples/{name}")):
            head = (EXAMPLES / f"{name}{suffix}").read_text()[:1500]
            assert "unisono run -n " in head and mark in head, f"{name}{suffix} does not say how to run it"


# One that trains by torch takes ten seconds.
BRIEF = [(name, ranks) for name in NUMBERED for ranks in ([3] if name == "06_own_hook" else [1, 3, 4])]
WHOLE = [(name, ranks) for name in NUMBERED for ranks in [1, 2, 3, 4] if (name, ranks) not in BRIEF]


@pytest.mark.parametrize(("name", "ranks"), [*BRIEF, *(pytest.param(*case, marks=pytest.mark.long) for case in WHOLE)])
def test_python(name: str, ranks: int) -> None:
    output = run(ranks, sys.executable, EXAMPLES / f"{name}.py")
    assert "Traceback" not in output
    assert output.strip()


@pytest.mark.timeout(900)  # the first one may build them
@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.long), 3, 4])
@pytest.mark.parametrize("name", NUMBERED)
def test_cpp(programs: Path, name: str, ranks: int) -> None:
    assert run(ranks, programs / name).strip()


@pytest.mark.parametrize("ranks", [3, pytest.param(4, marks=pytest.mark.long)])
def test_digits(ranks: int, tmp_path: Path) -> None:
    output = run(
        ranks,
        sys.executable,
        EXAMPLES / "digits.py",
        "--progress",
        "lines",
        "--plot",
        tmp_path / "p.png",
        "--json",
        tmp_path / "d.json",
    )
    assert "accuracy" in output and "FAILED" not in output
    assert (tmp_path / "p.png").stat().st_size > 10_000
    assert f'"ranks": {ranks}' in (tmp_path / "d.json").read_text()


def test_digits_tells_when_it_is_not_good_enough() -> None:
    # One epoch is too little to learn anything: every rank ends with status 1.
    assert "FAILED: the accuracy is below" in run(
        2, sys.executable, EXAMPLES / "digits.py", "--progress", "lines", "--epochs", "1", status=1
    )


@pytest.mark.timeout(900)
def test_digits_in_cpp(programs: Path, tmp_path: Path) -> None:
    table = tmp_path / "digits.csv"
    subprocess.run([sys.executable, EXAMPLES / "digits_csv.py", table], check=True, timeout=60)
    output = run(4, programs / "digits", table)
    assert "accuracy" in output and "FAILED" not in output
    assert len((EXAMPLES / "digits.cpp").read_text().splitlines()) < 200

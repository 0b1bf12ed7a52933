"""`unisono run` names the rank whose failure was the cause, whichever rank's process ends first."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import unisono as package
from test_run import PYTHON, heard, unisono  # noqa: F401  (a fixture that is used by itself)

# `slow`: the rank that fails has told the others of its end a second before its process ends, so
# that theirs end first.
FAILS = """
import atexit, os, sys, threading, time
if "slow" in sys.argv:
    atexit.register(time.sleep, 1)
import numpy as np
import unisono
how = sys.argv[1]
w = unisono.init(timeout=60)
x = np.ones(4)
w.all_reduce(x)
if w.rank == w.size - 1:
    if how == "raise":
        raise ValueError("bad input")
    if how == "exit3":
        sys.exit(3)
    if how == "exit0":
        sys.exit(0)
    if how == "_exit9":
        os._exit(9)
    if how == "kill":
        os.kill(os.getpid(), 9)
    if how == "abort":
        w.abort("it does not converge")
        time.sleep(1)
        sys.exit(6)
    if how == "stays":
        w.abort("it does not converge")
        time.sleep(300)
if how == "subgroup" and w.rank in (0, 1):
    pair = w.subgroup([0, 1])
    if w.rank == 1:
        sys.exit(4)
    try:
        pair.all_reduce(x)
    except unisono.Error:
        time.sleep(0.5)
        sys.exit(5)
w.all_reduce(x)
w.all_reduce(x)
"""


def fails(ranks: int, *arguments: str, options: tuple[str, ...] = (), wrapper: tuple[str, ...] = ()) -> tuple[int, str]:
    """The exit status, and the last line that the launcher said."""
    command = [unisono(), "run", "-n", str(ranks), *options, "--", *wrapper, PYTHON, "-c", FAILS, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    said = [line for line in done.stderr.splitlines() if line.startswith("unisono: ")]
    assert said, done.stderr
    return done.returncode, said[-1]


def named(line: str) -> int:
    """The rank that the launcher says was first."""
    found = re.search(r"first was rank (\d+)", line)
    assert found, line
    return int(found[1])


@pytest.mark.parametrize("when", ["fast", "slow"])
@pytest.mark.parametrize(("how", "status"), [("raise", 1), ("exit3", 3), ("_exit9", 9), ("kill", 137), ("abort", 6)])
@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.long), 4])
def test_the_cause_is_named_and_its_status_is_the_jobs(ranks: int, how: str, status: int, when: str) -> None:
    """It does not matter that the others may end sooner."""
    returned, said = fails(ranks, how, when)
    assert (named(said), returned) == (ranks - 1, status), said


@pytest.mark.parametrize("ranks", [3, 8])
def test_along_a_chain_of_failures(ranks: int) -> None:
    """Rank 1 ends, so rank 0 fails in their subgroup and waits, so the rest fails."""
    returned, said = fails(ranks, "subgroup", "slow")
    assert (named(said), returned) == (1, 4), said


def test_behind_a_shell_that_goes_on() -> None:
    """The process that failed is not the one that the launcher started, which ends later."""
    wrapper = ("sh", "-c", '"$@"; status=$?; sleep 1; exit $status', "sh")
    returned, said = fails(3, "exit3", wrapper=wrapper)
    assert (named(said), returned) == (2, 3), said


def test_who_left_with_success_is_no_failure_and_is_named() -> None:
    """The first that failed is told, and whom its error names."""
    returned, said = fails(3, "exit0", "slow")
    assert returned == 1
    assert named(said) in (0, 1)
    assert "its error names rank 2, which had ended with status 0" in said


def test_who_aborted_and_goes_on_is_no_failure() -> None:
    """It is ended with the job."""
    returned, said = fails(3, "stays", options=("--grace", "1"))
    assert returned == 1
    assert named(said) in (0, 1)
    assert "its error names rank 2, which ran until it was ended" in said


def test_a_program_in_cxx(tmp_path: Path) -> None:
    """Uncaught exceptions of the survivors are SIGABRT; the cause is the rank that returned 3, slowly."""
    source = tmp_path / "fails.cc"
    source.write_text("""
#include <unistd.h>
#include <vector>
#include "unisono/unisono.hpp"
int main() {
  int rank;
  {
    auto world = unisono::init();
    std::vector<float> x(4, 1);
    world.all_reduce(x);
    rank = world.rank();
    if (rank != 2) for (;;) world.all_reduce(x);
  }
  ::sleep(1);
  return 3;
}
""")
    where = Path(package.__file__).parent
    binary = tmp_path / "fails"
    subprocess.run(["g++", "-std=c++20", str(source), "-I", str(where / "include"), str(where / "libunisono.so"),
                    f"-Wl,-rpath,{where}", "-o", str(binary)], check=True, timeout=200)  # fmt: skip
    done = subprocess.run([unisono(), "run", "-n", "3", "--", "sh", "-c", f"ulimit -c 0; exec {binary}"],
                          capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "first was rank 2" in done.stderr

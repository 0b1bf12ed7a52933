"""`unisono run` whose ranks are further down than its children: programs that start the program."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

COMMAND = os.environ.get("UNISONO_COMMAND") or str(Path(sysconfig.get_path("scripts")) / "unisono")

JOINS = """
import numpy, unisono

def join():
    w = unisono.init()
    x = numpy.ones(3)
    w.all_reduce(x)
    print("sum", x[0])

if __name__ == "__main__":
    join()
"""
WRAPPER = """
import multiprocessing, os, subprocess, sys
from joins import join

if __name__ == "__main__":
    how = sys.argv[1]
    if how == "reused":
        os.dup2(os.pipe()[0], int(os.environ["UNISONO_SECRET_FD"]))
        join()
    elif how == "subprocess":
        sys.exit(subprocess.run([sys.executable, "joins.py"]).returncode)
    else:
        p = multiprocessing.get_context(how).Process(target=join)
        p.start()
        p.join()
        sys.exit(p.exitcode)
"""


@pytest.mark.parametrize("how", ["subprocess", "spawn", "forkserver", "reused"])
def test_a_wrapper_may_close_descriptors(tmp_path: Path, how: str) -> None:
    """The rank is one process further down, and gets the secret all the same."""
    (tmp_path / "joins.py").write_text(JOINS)
    wrapper = tmp_path / "wrapper.py"
    wrapper.write_text(WRAPPER)
    command = [COMMAND, "run", "-n", "2", "--timeout", "60", "--", sys.executable, wrapper.name, how]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == ["[0] sum 2.0", "[1] sum 2.0"]

"""Programs under launchers that are not ours: Open MPI, MPICH, Intel MPI and Slurm set ranks and sizes their own way.

`tools/launchers.sh` installs them, which `make test-long` does; what is not there is skipped.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm import Slurm

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "build" / "launchers"
AS_ROOT = {f"{name}_ALLOW_RUN_AS_ROOT{end}": "1" for name in ("OMPI", "PRTE") for end in ("", "_CONFIRM")}
LIMIT = 60.0

SUMS = """
import numpy, os, unisono
w = unisono.init(timeout=20)
x = numpy.ones(1000)
w.all_reduce(x)
os.write(1, f"rank {w.rank} of {w.size} has {x[0]:g}\\n".encode())
w.destroy()
"""
BY_DISTRIBUTED = """
import numpy, os
import unisono.distributed as dist
dist.init_process_group()
x = numpy.ones(3)
dist.all_reduce(x)
os.write(1, f"rank {dist.get_rank()} of {dist.get_world_size()} has {x[0]:g}\\n".encode())
dist.destroy_process_group()
"""
DIES = """
import numpy, os, signal, sys, unisono
w = unisono.init(timeout=20)
x = numpy.ones(1000)
w.all_reduce(x)
if w.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    while True:
        w.all_reduce(x)
except unisono.RankFailure as error:
    with open(f"{sys.argv[1]}/told-{w.rank}", "w") as file:
        file.write(str(error))
    raise
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with Slurm(tmp_path_factory.mktemp("slurm")) as running:
        yield running


LAUNCHERS = ["openmpi-4", "mpich-4", "openmpi-5", "mpich-5", "intel-mpi", "slurm"]
SHORT = ("openmpi-4", "mpich-4")  # also in `make test`, where they are installed
MARKED = [name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in LAUNCHERS]


def command_of(launcher: str, ranks: int, request: pytest.FixtureRequest) -> tuple[list[str], dict[str, str]]:
    """The words before the program, and what the environment has besides; skips what is not there."""
    n = ["-np", str(ranks)]
    if launcher == "slurm":
        running: Slurm = request.getfixturevalue("slurm")
        return running.srun(ranks), running.environment
    if launcher in ("openmpi-4", "mpich-4"):
        mpirun = shutil.which({"openmpi-4": "mpirun.openmpi", "mpich-4": "mpirun.mpich"}[launcher])
    else:
        place = {
            "openmpi-5": "openmpi/bin/mpirun",
            "mpich-5": "mpich/bin/mpirun",
            "intel-mpi": "impi-rt/bin/mpiexec.hydra",
        }
        mpirun = str(FOLDER / place[launcher])
    if mpirun is None or not Path(mpirun).exists():
        pytest.skip(f"{launcher} is not there: tools/launchers.sh installs it")
    if launcher.startswith("openmpi"):
        return [mpirun, "--oversubscribe", *n], AS_ROOT
    if launcher == "intel-mpi":
        home = FOLDER / "impi-rt"
        return [mpirun, "-bootstrap", "fork", *n], {"I_MPI_ROOT": str(home), "LD_LIBRARY_PATH": str(home / "lib")}
    return [mpirun, *n], {}


def run(launcher: str, ranks: int, program: str, request: pytest.FixtureRequest, *arguments: str) -> tuple[int, str]:
    """Start the program; its exit status, and what it printed."""
    words, more = command_of(launcher, ranks, request)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("UNISONO_")}
    process = subprocess.Popen(
        [*words, sys.executable, "-c", program, *arguments],
        env={**clean, "UNISONO_TUNING": "off", **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        pytest.fail(f"{launcher}: no end after {LIMIT:g} s:\n{output}")
    return process.returncode, output


@pytest.mark.parametrize(
    "program", [SUMS, pytest.param(BY_DISTRIBUTED, marks=pytest.mark.long)], ids=["init", "distributed"]
)
@pytest.mark.parametrize("launcher", MARKED)
def test_all_ranks_meet(launcher: str, program: str, request: pytest.FixtureRequest) -> None:
    status, output = run(launcher, 3, program, request)
    assert status == 0, output
    assert sorted(line for line in output.splitlines() if line.startswith("rank ")) == [
        f"rank {rank} of 3 has 3" for rank in range(3)
    ], output


@pytest.mark.long
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_death_ends_the_job(launcher: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Launchers kill who is left, some at once: who had time to be told names the rank."""
    start = time.monotonic()
    status, output = run(launcher, 3, DIES, request, str(tmp_path))
    assert status != 0, output
    assert time.monotonic() - start < LIMIT / 2, output
    for told in tmp_path.glob("told-*"):
        text = told.read_text()
        assert not text or "rank 1" in text, text

"""A rank that ends, or fails, while the world is being joined: the others are told at once, and why."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import free_port, unisono_command
from harness.joining import TIMEOUT, Job
from harness.launch import environment

WITHIN = 2.0  # seconds, from the death to the error: on an idle machine 0.3


@pytest.fixture(params=["tcp", "loopback", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A meeting place of each kind: a port, the unix socket that stands for one, a file."""
    if request.param == "file":
        return f"file://{tmp_path}/store"
    return f"tcp://127.0.0.1:{free_port()}"


@pytest.fixture
def job(place: str, request: pytest.FixtureRequest) -> Iterator[Job]:
    local = {"UNISONO_LOCAL_SIZE": "3", "UNISONO_LOCAL_RANK": "0"} if "loopback" in request.node.name else {}
    made = Job(3, place, **local)
    yield made
    made.end()


def expect_failure(said: dict[str, Any], rank: int, pid: int, since: float) -> None:
    assert (said.get("type"), said.get("rank"), said.get("pid")) == ("RankFailure", rank, pid), said
    assert f"rank {rank}" in said["message"] and str(pid) in said["message"], said
    assert said["at"] - since < WITHIN, said


def test_the_others_are_told_of_a_rank_that_is_killed(job: Job) -> None:
    job.start_joining(0)
    victim = job.start_joining(1)
    victim.kill()
    killed = time.time()
    expect_failure(job.said(0), 1, victim.pid, killed)


def test_who_comes_later_is_told_too(job: Job) -> None:
    job.start_joining(0)
    first = job.start_joining(1)
    first.kill()
    killed = time.time()
    job.start(2)
    said = job.said(0)
    expect_failure(said, 1, first.pid, killed)
    expect_failure(job.said(2), 1, first.pid, max(killed, said["at"]))


def test_two_die_and_all_survivors_name_the_same(place: str, request: pytest.FixtureRequest) -> None:
    job = Job(5, place)
    try:
        ranks = [job.start_joining(rank) for rank in range(4)]
        killed = time.time()
        ranks[1].kill()
        ranks[3].kill()
        said = [job.said(0), job.said(2)]
        assert said[0]["rank"] in (1, 3) and said[0]["rank"] == said[1]["rank"], said
        for report in said:
            expect_failure(report, report["rank"], ranks[report["rank"]].pid, killed)
    finally:
        job.end()


def test_rank_0_is_killed_and_the_store_with_it(job: Job) -> None:
    first = job.start_joining(0)
    job.start_joining(1)
    first.send_signal(signal.SIGKILL)
    killed = time.time()
    expect_failure(job.said(1), 0, first.pid, killed)


def test_an_error_of_one_rank_is_everybodys(job: Job) -> None:
    job.start_joining(0)
    began = time.time()
    failing = job.start(1, UNISONO_FAULT="nonsense=1", UNISONO_TRANSPORT="shm")
    own = job.said(1)
    assert own["type"] == "InvalidArgument", own
    told = job.said(0)
    expect_failure(told, 1, failing.pid, max(began, own["at"]))
    assert "UNISONO_FAULT" in told["message"], told


BEFORE = """
import os, sys
import unisono
if os.environ["UNISONO_RANK"] == "1":
    {end}
try:
    unisono.init()
except unisono.RankFailure as e:
    print("told of rank", e.rank, str(e), flush=True)
"""


@pytest.mark.parametrize(
    ("end", "how"),
    [
        ("sys.exit(0)", "exited with status 0"),
        ("raise ValueError('no data')", "exited with status 1"),
        ("os.kill(os.getpid(), 9)", "killed by signal 9"),
    ],
)
def test_the_launcher_tells_of_a_rank_that_ends_before_it_joins(end: str, how: str) -> None:
    began = time.monotonic()
    command = [unisono_command(), "run", "-n", "3", "--", sys.executable, "-c", BEFORE.format(end=end)]
    env = environment({"UNISONO_INIT_TIMEOUT": TIMEOUT})
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=float(TIMEOUT), check=False)
    told = [line for line in done.stdout.splitlines() if "told of rank 1" in line]
    assert len(told) == 2 and all(how in line for line in told), (done.stdout, done.stderr)
    assert time.monotonic() - began < float(TIMEOUT) / 2

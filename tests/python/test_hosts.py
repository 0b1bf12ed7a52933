"""Several hosts (network namespaces): one `unisono run` on each, shared memory inside, tcp between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unisono
from harness.hosts import Hosts, launch_on_hosts, why_no_hosts

Group = Any


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """Two of them."""
    if (missing := why_no_hosts()) is not None:
        pytest.skip(f"SKIPPED: {missing}")
    with Hosts(2) as made:
        yield made


def every_collective(world: Group) -> dict[str, Any]:
    n, r = world.size, world.rank
    wrong = []

    def check(name: str, got: Any, expected: Any) -> None:
        if not np.array_equal(np.asarray(got), np.asarray(expected)):
            wrong.append(name)

    for count in (1, 1000, 300_000):
        mine = np.arange(count, dtype=np.float64) + r
        total = n * np.arange(count, dtype=np.float64) + n * (n - 1) / 2
        x = mine.copy()
        world.all_reduce(x)
        check(f"all_reduce {count}", x, total)
        everything = np.concatenate([np.arange(count) + q for q in range(n)]).astype(np.float64)
        check(f"all_gather {count}", world.all_gather(mine), everything.reshape(n, -1))
        for root in (0, n - 1):
            y = mine.copy()
            world.broadcast(y, root=root)
            check(f"broadcast {count} from {root}", y, np.arange(count) + root)
        blocks = np.concatenate([np.full(count, 100.0 * r + q) for q in range(n)])
        z = np.zeros_like(blocks)
        world.all_to_all(blocks, z)
        check(f"all_to_all {count}", z, np.concatenate([np.full(count, 100.0 * q + r) for q in range(n)]))
        world.barrier()
    right, left = (r + 1) % n, (r - 1) % n
    got = np.zeros(50_000)
    work = world.irecv(got, src=left)
    world.send(np.full(50_000, float(r)), dst=right)
    work.wait()
    check("send", got, np.full(50_000, float(left)))
    return {"transport": world.transport, "wrong": wrong}


@pytest.mark.parametrize("ranks_per_host", [1, 2])
def test_collectives_across_hosts(hosts: Hosts, ranks_per_host: int) -> None:
    for report in launch_on_hosts(every_collective, hosts, ranks_per_host).values():
        assert report["wrong"] == []
        assert report["transport"] == ("tcp" if ranks_per_host == 1 else "mixed")


def one_dies(world: Group, victim: int) -> dict[str, Any]:
    pids = [int(part[0]) for part in world.all_gather(np.array([os.getpid()]))]
    x = np.ones(100_000)
    try:
        for i in range(10**9):
            if i == 10 and world.rank == victim:
                os.kill(os.getpid(), signal.SIGKILL)
            world.all_reduce(x)
    except unisono.RankFailure as error:
        return {"rank": error.rank, "pid": error.pid, "expected": pids[victim], "text": str(error)}
    raise AssertionError("the loop ended")


@pytest.mark.parametrize("victim", [0, 3])
def test_a_rank_that_is_killed_is_named_on_both_hosts(hosts: Hosts, victim: int) -> None:
    job = launch_on_hosts(one_dies, hosts, 2, victim=victim)
    assert job.status != 0
    for rank, outcome in enumerate(job.outcomes):
        if rank == victim:
            assert outcome.missing
            continue
        assert outcome.failure is None and not outcome.missing, (outcome, job.output)
        assert outcome.value["rank"] == victim, (outcome.value, job.output)
        assert outcome.value["pid"] == outcome.value["expected"]


def differ(world: Group) -> str:
    try:
        world.all_reduce(np.zeros(1000 if world.rank != 2 else 1001))
    except unisono.Mismatch as error:
        return str(error)
    return "nothing"


def test_a_mismatch_is_told_on_both_hosts(hosts: Hosts) -> None:
    job = launch_on_hosts(differ, hosts, 2)
    for text in job.values():
        assert "1001" in text and "rank 2" in text, job.output


def test_hosts_go_with_a_program_that_is_terminated() -> None:
    """As `timeout` does it to a benchmark."""
    if (missing := why_no_hosts()) is not None:
        pytest.skip(f"SKIPPED: {missing}")
    code = """
        import signal
        from harness.hosts import Hosts
        with Hosts(1) as hosts:
            print(*hosts.names, flush=True)
            signal.pause()
    """
    program = [sys.executable, "-c", textwrap.dedent(code)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            name = process.stdout.readline().strip()
            namespaces = Path("/run/netns")
            assert name and (namespaces / name).exists()
            process.terminate()
            assert process.wait(30) == 128 + signal.SIGTERM
            assert not (namespaces / name).exists()
        finally:
            process.kill()  # else a failure would wait for it for ever

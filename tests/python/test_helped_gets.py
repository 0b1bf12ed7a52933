"""Who waits for a rank that gets something through the kernel writes a part of it to the memory of that rank:
what becomes of that when one of them dies, or is stopped amid."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
import unisono
from harness import launch

Group = Any
WITHIN = 5.0  # seconds
PRIVATE = {
    "UNISONO_SHARE_MEMORY": "0",
    "UNISONO_ALGORITHM": "broadcast:0-=single_copy;gather:0-=single_copy",
}


def dies_amid(world: Group, victim: int, count: int) -> list[Any] | None:
    x, both = np.zeros(count, np.float32), np.zeros(2 * count, np.float32)

    def get() -> None:  # rank 1 gets what rank 0 has, in a broadcast, a gather, a reduce and a message
        world.broadcast(x, root=0)
        world.gather(x, both if world.rank == 1 else None, root=1)
        world.reduce(x, root=1)
        world.send(x, 1) if world.rank == 0 else world.recv(x, 0)

    for _ in range(1 if count > 1 << 20 else 1000):  # short ones are tried with help after some hundred calls
        get()
    if world.rank == victim:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGKILL)).start()
    start = time.monotonic()
    try:
        while True:
            get()
    except unisono.RankFailure as error:
        return [error.rank, str(error), time.monotonic() - start]


@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("count", [4 << 20, 16 << 10], ids=["long", "short"])
def test_one_of_both_dies(victim: int, count: int) -> None:
    env = PRIVATE if count > 1 << 20 else {"UNISONO_SHARE_MEMORY": "0"}  # short ones only in contest with stages
    job = launch(dies_amid, 2, victim=victim, count=count, env=env)
    assert job.outcomes[1 - victim].value is not None, (job.outcomes, job.output)
    named, message, took = job.outcomes[1 - victim].value
    assert named == victim, (message, job.output)
    assert took < WITHIN, message


def stopped_amid(world: Group, after: float) -> list[Any] | None:
    """Rank 2 stops rank 0, whom rank 1 lets go on when it has its memory back, and uses it for something else."""
    from pathlib import Path

    x, both, word = np.zeros(4 << 20, np.float32), np.zeros(8 << 20, np.float32), np.zeros(1)
    pids = [int(p[0]) for p in world.all_gather(np.array([os.getpid()]))]
    if world.rank == 2:
        world.recv(word, 1)
        time.sleep(after)  # somewhere amid
        os.kill(pids[0], signal.SIGSTOP)
        return None
    pair = world.subgroup([0, 1])

    def get(timeout: float) -> None:
        pair.broadcast(x, root=0, timeout=timeout)
        pair.gather(x, both if world.rank == 1 else None, root=1, timeout=timeout)
        pair.send(x, 1, timeout=timeout) if world.rank == 0 else pair.recv(x, 0, timeout=timeout)

    def ended(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    get(20.0)
    if world.rank == 1:
        world.send(word, 2)
    start = time.monotonic()
    try:
        while True:
            get(1.0 if world.rank == 1 else 5.0)
    except unisono.Error as error:
        took = time.monotonic() - start
        x[:] = both[:] = 9
        if world.rank == 0:
            return None
        os.kill(pids[0], signal.SIGCONT)
        deadline = time.monotonic() + 20
        while not ended(pids[0]) and time.monotonic() < deadline:
            time.sleep(0.01)
        return [type(error).__name__, took, ended(pids[0]), bool((x == 9).all() and (both == 9).all())]


@pytest.mark.parametrize("after", [0.05, *(pytest.param(a, marks=pytest.mark.long) for a in (0.0612, 0.0734))])
def test_who_was_stopped_writes_to_nobody(after: float) -> None:
    job = launch(stopped_amid, 3, after=after, env=PRIVATE, limit=60)
    assert job.outcomes[1].value is not None, (job.outcomes, job.output)
    error, took, gone, untouched = job.outcomes[1].value
    assert error == "Timeout" and took < 1.0 + WITHIN, (job.outcomes, job.output)
    assert gone, (job.outcomes, job.output)
    assert untouched, job.output

"""Ranks that wait for each other: all of them are told, at once and by name; and nothing else is taken for that."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unisono
from harness import launch

Group = Any
transports = pytest.mark.parametrize("transport", ["", "tcp"], ids=["shm", "tcp"])


def in_cycle(world: Group, case: str, folder: str) -> list[Any]:
    rank, n = world.rank, world.size
    left, right = (rank - 1) % n, (rank + 1) % n
    x, big = np.zeros(1), np.zeros(300_000)
    other = world.subgroup(range(n))

    def works() -> None:
        # A ring as one writes it with Works, that receives before it sends.
        receive = world.irecv(x, src=left)
        receive.wait()
        world.isend(x, dst=right).wait()

    calls: dict[str, Any] = {
        "recv": lambda: world.recv(x, src=right),
        "recv, large": lambda: world.recv(big, src=right, tag=3),
        "irecv": works,
        "recv and all_reduce": lambda: world.recv(x, src=1) if rank == 0 else world.all_reduce(x),
        "recv and all_reduce, large": lambda: world.recv(x, src=1) if rank == 0 else world.all_reduce(big),
        "recv and barrier, asynchronous": lambda: (
            world.irecv(x, src=1).wait() if rank == 0 else world.all_reduce(big, async_op=True).wait()
        ),
        "recv and broadcast": lambda: world.recv(x, src=1) if rank == 0 else world.broadcast(x, root=0),
        "two groups": lambda: world.barrier() if rank == 0 else other.barrier(),
        "two groups, asynchronous": lambda: (world if rank == 0 else other).all_reduce(big, async_op=True).wait(),
    }
    world.barrier()
    start = time.monotonic()
    try:
        calls[case]()
    except unisono.Mismatch as error:
        took = time.monotonic() - start
        if case in ("recv", "recv, large", "irecv"):  # nothing is lost: the same ranks go on
            y = np.zeros(1)
            send = world.isend(np.array([rank]), dst=right, tag=9)
            world.recv(y.view(np.int64), src=left, tag=9)
            send.wait()
            world.barrier()
        # A process that ends is told to all at once, too: not before all have heard of the cycle.
        open(os.path.join(folder, str(rank)), "w").close()
        while len(os.listdir(folder)) < n and time.monotonic() < start + 20:
            time.sleep(0.01)
        return [str(error), error.rank, error.other, took]
    return ["nothing was raised", -1, -1, 0.0]


CASES = {
    "recv": "recv(src=1, tag=0)",
    "recv, large": "recv(src=1, tag=3)",
    "irecv": "recv(src=0, tag=0)",
    "recv and all_reduce": "all_reduce #",
    "recv and all_reduce, large": "all_reduce #",
    "recv and barrier, asynchronous": "all_reduce #",
    "recv and broadcast": "broadcast #",
    "two groups": "barrier #",
    "two groups, asynchronous": "all_reduce #",
}


@transports
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("case", CASES)
def test_everybody_in_a_cycle_is_told(tmp_path: Path, transport: str, ranks: int, case: str) -> None:
    env = {"UNISONO_TRANSPORT": transport, "UNISONO_TIMEOUT": "40"}
    job = launch(in_cycle, ranks, env=env, case=case, folder=str(tmp_path))
    for rank, outcome in enumerate(job.outcomes):
        message, own, other, took = outcome.value
        assert " wait for each other: rank 0 (host " in message, message
        assert CASES[case] in message, message
        assert own != other and 0 <= other < ranks, message
        assert took < 6, f"rank {rank}: {took:.2f} s: {message}"


def ends_well(world: Group, case: str) -> bool:
    rank, n = world.rank, world.size
    left, right = (rank - 1) % n, (rank + 1) % n
    x = np.zeros(1)

    def slow_sender() -> None:
        # All others wait for rank 0, which computes.
        if rank == 0:
            time.sleep(3.5)
            world.send(np.full(1, 7.0), dst=1)
        else:
            world.recv(x, src=left)
            if right != 0:
                world.send(x, dst=right)
        world.barrier()

    def other_thread_sends() -> None:
        # It has never called before.
        def later() -> None:
            time.sleep(3.5)
            world.send(np.full(1, 7.0), dst=left)

        thread = threading.Thread(target=later)
        thread.start()
        world.recv(x, src=right)
        thread.join()

    def gives_up_and_sends() -> None:
        if rank == 0:
            try:
                world.recv(x, src=1, timeout=3.5)
            except unisono.Timeout as error:
                assert "wait for each other" in str(error), str(error)
            for to in range(1, n):
                world.send(np.full(1, 7.0), dst=to)
        else:
            world.recv(x, src=0)

    def waits_a_little_and_sends() -> None:
        receive = world.irecv(x, src=right)
        for _ in range(20):
            try:
                receive.wait(timeout=0.15)
            except unisono.Timeout:
                continue
        world.send(np.full(1, 7.0), dst=left)
        receive.wait()

    def large_sends() -> None:
        # Around the ring, all of them before any receive: they are kept.
        big = np.full(8 << 20, float(rank))
        world.send(big, dst=right)
        world.recv(big, src=left)
        assert big[0] == big[-1] == left
        x[0] = 7

    def slow_ring() -> None:
        # One of them has the token for longer than the others' waits need to be asked about.
        for turn in range(3):
            if rank != 0 or turn > 0:
                world.recv(x, src=left)
            time.sleep(1.2)
            world.send(np.full(1, 7.0), dst=right)
        if rank == 0:
            world.recv(x, src=left)

    calls: dict[str, Any] = {
        "a slow sender": slow_sender,
        "another thread sends": other_thread_sends,
        "one gives up and sends": gives_up_and_sends,
        "waits in turns": waits_a_little_and_sends,
        "large sends": large_sends,
        "a slow ring": slow_ring,
    }
    world.barrier()
    calls[case]()
    world.barrier()
    sender = rank == 0 and case in ("a slow sender", "one gives up and sends")
    return bool(sender or x[0] == 7)


@transports
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize(
    "case",
    [
        "a slow sender",
        "another thread sends",
        "one gives up and sends",
        "waits in turns",
        "large sends",
        "a slow ring",
    ],
)
def test_what_goes_on_is_no_cycle(transport: str, ranks: int, case: str) -> None:
    job = launch(ends_well, ranks, env={"UNISONO_TRANSPORT": transport, "UNISONO_TIMEOUT": "40"}, case=case)
    assert job.values() == [True] * ranks, job.output


def another_thread_may_send(world: Group) -> str:
    # A thread that has nothing to do with the library, as far as anybody can tell before the end.
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    other, x = 1 - world.rank, np.zeros(1)
    try:
        world.recv(x, src=other)
    except unisono.Timeout as error:
        # Nobody leaves before both have had theirs.
        world.send(x, dst=other, tag=5)
        world.recv(x, src=other, tag=5)
        return str(error)
    finally:
        stop.set()
        thread.join()
    return "nothing was raised"


@transports
def test_a_cycle_that_may_be_none_is_said_in_the_log_and_in_the_timeout(transport: str) -> None:
    job = launch(another_thread_may_send, 2, env={"UNISONO_TRANSPORT": transport, "UNISONO_TIMEOUT": "4"})
    for message in job.values():
        assert "did not come to an end within 4.000 s" in message, message
        assert "ranks 0 and 1 wait for each other: rank 0 (host " in message, message
    assert job.output.count("it seems that ranks 0 and 1 wait for each other") == 2, job.output

"""Operations in flight: several at once, waiting with a timeout, memory that outlives its name."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import numpy as np
import pytest
import unisono
from harness import Pools, reference

Group = Any
worlds = pytest.mark.parametrize(
    ("ranks", "transport"), [(2, ""), (3, ""), (4, ""), (3, "tcp")], ids=lambda value: str(value) or "shm"
)


def many(world: Group, count: int, flights: int) -> None:
    rank, n = world.rank, world.size
    mine = [reference.make("float64", count + i, rank, seed=i) for i in range(flights)]
    works, expected = [], []
    for i, x in enumerate(mine):
        inputs = [reference.make("float64", count + i, r, seed=i) for r in range(n)]
        if i % 3 == 0:
            works.append(world.all_reduce(x, async_op=True))
            expected.append(reference.combine("sum", inputs))
        elif i % 3 == 1:
            works.append(world.broadcast(x, root=i % n, async_op=True))
            expected.append(inputs[i % n])
        else:
            works.append(world.all_reduce(x, "max", async_op=True))
            expected.append(reference.combine("max", inputs))
        if i % 5 == 0:  # a blocking one in between waits for its turn
            y = np.array([float(rank)])
            world.all_reduce(y)
            assert y[0] == n * (n - 1) / 2
    for work in reversed(works):
        work.wait()
        assert work.done() and work.error() is None
    for x, right in zip(mine, expected, strict=True):
        reference.check(x, right)


@worlds
@pytest.mark.parametrize("count", [1, 1000, 100_000])
def test_many_in_flight(pools: Pools, ranks: int, transport: str, count: int) -> None:
    pools(ranks, transport).run(many, count=count, flights=20)


def waiting(world: Group) -> None:
    # The last rank joins in only when the first has found that it is not there.
    x = np.array([world.rank + 1.0])
    note = np.zeros(1)
    last = world.size - 1
    if world.rank == 0:
        work = world.all_reduce(x, async_op=True)
        assert not work.done() and work.error() is None
        assert repr(work) == "<unisono.Work: in flight>"
        start = time.monotonic()
        try:
            work.wait(timeout=0.15)
        except unisono.Timeout as error:
            assert isinstance(error, TimeoutError) and "0.1" in str(error), error
        else:
            raise AssertionError("nobody else was there")
        assert 0.1 < time.monotonic() - start < 5
        world.send(note, dst=last, tag=99)
        work.wait()
        assert work.done()
    elif world.rank == last:
        world.recv(note, src=0, tag=99)
        world.all_reduce(x)
    else:
        world.all_reduce(x)
    assert x[0] == world.size * (world.size + 1) / 2


@worlds
def test_wait_with_a_timeout_leaves_the_operation_going(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(waiting)


def dropped(world: Group) -> None:
    # Neither the array nor the Work has a name while the operation runs; what it writes is not reused memory.
    rank, n, last = world.rank, world.size, world.size - 1
    keep = np.full(200_000, 1.0)
    go = np.zeros(1)
    if rank == last:
        world.recv(go, src=0, tag=5)
    for _ in range(4):
        world.all_reduce(np.full(200_000, 1.0), async_op=True)
        gc.collect()
    fresh = [np.full(200_000, float(rank)) for _ in range(8)]
    if rank == 0:
        world.send(go, dst=last, tag=5)
    world.all_reduce(keep)
    assert (keep == n).all()
    assert all((x == rank).all() for x in fresh)


@worlds
def test_a_dropped_work_keeps_its_memory(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(dropped)


def exported(world: Group) -> None:
    # A bytearray cannot be resized while an operation uses it, and can be afterwards.
    x, go, last = bytearray(64), np.zeros(1), world.size - 1
    if world.rank == last:
        world.recv(go, src=0, tag=6)
    work = world.all_reduce(x, "max", async_op=True)
    if world.rank == 0:
        try:
            x.extend(b"more")
        except BufferError:
            pass
        else:
            raise AssertionError("the memory of an operation in flight was moved")
        world.send(go, dst=last, tag=6)
    work.wait()
    x.extend(b"more")


@worlds
def test_memory_is_pinned_until_it_is_done(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(exported)


def threads(world: Group, rounds: int) -> None:
    # Two threads, each with a group of its own: neither waits for the other.
    groups = [world.subgroup(range(world.size)) for _ in range(2)]
    troubles = []

    def work(group: Any) -> None:
        try:
            for i in range(rounds):
                x = np.full(3000, float(group.rank + i))
                group.all_reduce(x)
                n = group.size
                assert (x == n * (n - 1) / 2 + n * i).all()
        except BaseException as error:
            troubles.append(error)

    workers = [threading.Thread(target=work, args=(group,)) for group in groups]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if troubles:
        raise troubles[0]
    for group in groups:
        group.destroy()


@worlds
def test_groups_in_threads(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(threads, rounds=50)

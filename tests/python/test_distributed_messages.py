"""unisono.distributed's messages, and operations in flight."""

from __future__ import annotations

import array
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unisono
from harness import Pools

Group = Any


def messages(world: Group, place: str) -> None:
    from harness.joined import joined

    n, rank = world.size, world.rank
    with joined(world, place) as dist:
        right, left = (rank + 1) % n, (rank - 1) % n
        # Both directions at once, everybody sending first.
        x, y = np.full(1000, float(rank)), np.zeros(1000)
        dist.send(x, right)
        assert dist.recv(y, left) == left and (y == left).all()
        # From any source, with tags, out of order.
        if rank == 0:
            seen = []
            for _ in range(n - 1):
                sender = dist.recv(y, tag=3)
                assert y[0] == sender
                seen.append(sender)
            assert sorted(seen) == list(range(1, n))
            work = dist.irecv(y, tag=4)
            assert work.wait() is True and work.source_rank() == n - 1
        else:
            if rank == n - 1:
                dist.send(x, 0, tag=4)
            dist.send(x, group_dst=0, tag=3)
        # batch_isend_irecv, in either order.
        out, into = np.full(70_000, float(rank)), np.zeros(70_000)
        ops = [dist.P2POp(dist.irecv, into, left), dist.P2POp(dist.isend, out, right)]
        works = dist.batch_isend_irecv(ops if rank % 2 else ops[::-1])
        for work in works:
            work.wait()
        assert (into == left).all() and len(works) == 2


@pytest.mark.parametrize("ranks", [2, 4])
def test_messages(pools: Pools, tmp_path: Path, ranks: int) -> None:
    pools(ranks).run(messages, place=str(tmp_path / "store"))


def ring(world: Group, place: str) -> None:
    from harness.joined import joined

    n, rank = world.size, world.rank
    with joined(world, place) as dist:
        data = np.arange(1003.0) * (rank + 1)
        expected = data.copy()
        dist.all_reduce(expected)
        chunks = np.array_split(data, n)
        right, left = (rank + 1) % n, (rank - 1) % n
        for step in range(n - 1):  # reduce-scatter
            leaving = dist.isend(chunks[(rank - step) % n], right)
            arriving = np.zeros_like(chunks[(rank - step - 1) % n])
            dist.irecv(arriving, left).wait()
            leaving.wait()
            chunks[(rank - step - 1) % n] += arriving
        for step in range(n - 1):  # all-gather
            leaving = dist.isend(chunks[(rank + 1 - step) % n], right)
            dist.recv(chunks[(rank - step) % n], left)
            leaving.wait()
        assert np.array_equal(data, expected)


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_ring_of_the_users_own(pools: Pools, tmp_path: Path, ranks: int) -> None:
    pools(ranks).run(ring, place=str(tmp_path / "store"))


def in_flight(world: Group, place: str) -> None:
    from harness.joined import joined

    n = world.size
    with joined(world, place) as dist:
        # Whole and in chunks that are all in flight at once.
        data = np.ones(1_000_000, np.float32)
        works = [dist.all_reduce(data[i : i + 100_000], async_op=True) for i in range(0, len(data), 100_000)]
        for work in reversed(works):
            assert work.wait() is True and work.is_completed() and work.is_success() and work.exception() is None
        assert (data == n).all()
        # Hundreds, of which some are dropped.
        many = [np.ones(8) for _ in range(300)]
        kept = [dist.all_reduce(x, async_op=True) for x in many][::7]
        dist.barrier()
        for work in kept:
            work.wait()
        assert all((x == n).all() for x in many)
        # A list whose Work is dropped: it is there after a later collective.
        parts = [np.zeros(3) for _ in range(n)]
        dist.all_gather(parts, np.full(3, world.rank + 1.0), async_op=True)
        dist.barrier()
        assert [p[0] for p in parts] == list(range(1, n + 1))
        # Lists arrive with wait(), with is_completed(), and with the future.
        parts = [np.zeros(3) for _ in range(n)]
        work = dist.all_gather(parts, np.full(3, float(world.rank)), async_op=True)
        while not work.is_completed():
            pass
        assert [p[0] for p in parts] == list(range(n)) and work.result() == [parts]
        # Callbacks: on a thread of their own, where they may begin operations and wait for them.
        names = []

        def again(future: Any) -> Any:
            names.append(threading.current_thread().name)
            x = future.value()[0]
            dist.all_reduce(x, async_op=True).wait()
            return x

        x = np.ones(4)
        following = dist.all_reduce(x, async_op=True).get_future().then(again).then(lambda f: f.value().sum())
        assert following.wait() == 4 * n * n
        failing = dist.all_reduce(x, async_op=True).get_future().then(lambda f: 1 / 0)
        try:
            failing.wait()
        except ZeroDivisionError:
            pass
        else:
            raise AssertionError("no error")
        done = dist.barrier(async_op=True)
        done.wait()
        future = done.get_future()
        assert future.wait() == [] and future.done()


@pytest.mark.parametrize("ranks", [2, 4])
def test_operations_in_flight(pools: Pools, tmp_path: Path, ranks: int) -> None:
    pools(ranks).run(in_flight, place=str(tmp_path / "store"))


def lists(world: Group) -> None:
    # The same lists on a Group, without unisono.distributed; also async, with what does not lie
    # side by side.
    n, rank = world.size, world.rank
    whole = np.zeros((n, 2))
    world.all_gather(np.array([rank, 1.0]), list(whole))
    assert whole.tolist() == [[i, 1.0] for i in range(n)]
    parts = [np.zeros(4)[::2] for _ in range(n)]
    work = world.all_gather(np.array([rank, 1.0]), parts, async_op=True)
    work.wait()
    assert [p.tolist() for p in parts] == [[i, 1.0] for i in range(n)]
    uneven = [array.array("d", [0.0] * (i + 1)) for i in range(n)]
    world.gather(np.full(rank + 1, float(rank)), uneven if rank == 0 else None, counts=[i + 1 for i in range(n)])
    if rank == 0:
        assert [list(p) for p in uneven] == [[i] * (i + 1) for i in range(n)]
    out = np.zeros(rank + 1)
    world.scatter(uneven if rank == 0 else None, out, counts=[i + 1 for i in range(n)])
    assert out.tolist() == [rank] * (rank + 1)
    mine = world.reduce_scatter([np.full((2, 2), i + rank) for i in range(n)])
    assert mine.tolist() == [[rank * n + n * (n - 1) // 2] * 2] * 2
    call: Any
    for call, words in (
        (lambda: world.all_to_all([out] * n, out), "give lists for both"),
        (lambda: world.all_to_all([out] * n, [out] * n, counts=[1] * n, output_counts=[1] * n), "leave counts"),
        (lambda: world.all_gather(out, [np.zeros(2)] * n, counts=[3] * n), "has 2 elements and counts[0] is 3"),
        (lambda: world.scatter([np.zeros(2)] * n, np.zeros(3), rank), "an array of x has 2 elements and out 3"),
        (lambda: world.all_reduce([out]), "x is a list"),
    ):
        try:
            call()
        except unisono.InvalidArgument as error:
            assert words in str(error) or "same memory" in str(error), (words, error)
        else:
            raise AssertionError(words)


@pytest.mark.parametrize("ranks", [2, 3])
def test_lists_of_arrays_on_a_group(pools: Pools, ranks: int) -> None:
    pools(ranks).run(lists)

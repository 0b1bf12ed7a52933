"""Messages as MPI programs use them: sendrecv, probe, any tag, no rank, oneself, waiting for several, giving up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import unisono
from harness import Pools, launch
from harness.hosts import Hosts, launch_on_hosts, why_no_hosts

Group = Any
worlds = pytest.mark.parametrize(
    ("ranks", "transport"), [(2, ""), (3, "tcp"), (4, "")], ids=lambda value: str(value) or "shm"
)
COUNTS = (0, 1, 500, 20_000, 300_001)  # inline, brief, queued, handed over


def rings(world: Group, counts: list[int]) -> None:
    rank, n = world.rank, world.size
    left, right = (rank - 1) % n, (rank + 1) % n
    for count in counts:
        x, y = np.arange(count) + rank, np.full(count, -1)
        got = world.sendrecv(x, right, y, left, 3, 3)
        assert (got.source, got.tag, got.bytes) == (left, 3, 8 * count), got
        assert (y == np.arange(count) + left).all() and (x == np.arange(count) + rank).all()
        got = world.sendrecv_replace(x, left, right)
        assert (got.source, got.bytes) == (right, 8 * count) and (x == np.arange(count) + right).all()
        # From whoever sends, with whatever tag, into every second place.
        z = np.full((count, 2), -1)
        world.barrier()
        world.sendrecv(y, left, z[:, 0], unisono.ANY_RANK, 7 + rank, unisono.ANY_TAG)
        world.barrier()
        assert (z[:, 0] == np.arange(count) + rank).all() and (z[:, 1] == -1).all()
    # At the edges of a line nobody is there.
    before = rank - 1 if rank > 0 else unisono.NULL_RANK
    behind = rank + 1 if rank < n - 1 else unisono.NULL_RANK
    y = np.full(3, -1.0)
    got = world.sendrecv(np.full(3, float(rank)), behind, y, before)
    if rank > 0:
        assert (y == rank - 1).all() and got.source == before
    else:
        assert (y == -1).all() and (got.source, got.tag, got.bytes) == (unisono.NULL_RANK, unisono.ANY_TAG, 0)


@worlds
def test_sendrecv(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(rings, counts=list(COUNTS))


def probes(world: Group, counts: list[int]) -> None:
    rank, n = world.rank, world.size
    assert world.iprobe(tag=8) is None and world.iprobe(unisono.NULL_RANK).bytes == 0
    for count in counts:
        if rank == n - 1:
            world.barrier()
            for i in range(n - 1):
                found = world.probe(tag=unisono.ANY_TAG)
                again = world.probe(found.source, found.tag)
                assert (again.source, again.tag, again.bytes) == (found.source, found.tag, found.bytes)
                assert found.tag == 40 + found.source and found.bytes == 8 * (count + found.source), (i, found)
                x = np.zeros(found.bytes // 8)
                got = world.recv(x, found.source, found.tag)
                assert got.bytes == found.bytes and (x == found.source).all()
            assert world.iprobe(tag=unisono.ANY_TAG) is None
        else:
            work = world.isend(np.full(count + rank, float(rank)), n - 1, 40 + rank)
            world.barrier()
            work.wait()
        world.barrier()
    # With a time-out; and order among those of one rank.
    if rank == 0:
        try:
            world.probe(n - 1, 99, timeout=0.2)
        except unisono.Timeout as error:
            assert error.missing == [n - 1] and "tag 99" in str(error), error
        else:
            raise AssertionError("nothing was sent")
        for i in range(3):
            assert world.probe(n - 1, unisono.ANY_TAG).tag == 3 - i
            x = np.zeros(1)
            assert world.recv(x, n - 1, unisono.ANY_TAG).tag == 3 - i and x[0] == i
    elif rank == n - 1:
        for i in range(3):
            world.send(np.array([float(i)]), 0, 3 - i)


@worlds
def test_probe(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(probes, counts=list(COUNTS))


def own(world: Group, counts: list[int]) -> None:
    me = world.rank
    for count in counts:
        x, y = np.arange(count) + 1.0, np.zeros(count)
        sent = world.isend(x, me, 5)  # copied at once
        assert sent.done()
        x[:] = -1
        assert world.probe(me, 5).bytes == 8 * count
        assert world.recv(y, me, 5).source == me and (y == np.arange(count) + 1).all()
        y[:] = 0
        work = world.irecv(y, me, 6)
        world.send(np.arange(count) + 2.0, me, 6)
        work.wait()
        assert (y == np.arange(count) + 2).all() and work.received().source == me
        world.sendrecv(x, me, y, me, 9, 9)
        assert (y == x).all()
        # Any source is this one, too.
        world.isend(x, me, 11)
        assert world.recv(y, tag=11).source == me
    for call, cure in ((world.send, "irecv"), (world.recv, "isend")):
        try:
            call(x, me, 50)
        except unisono.InvalidArgument as error:
            assert "itself" in str(error) and cure in str(error), error
        else:
            raise AssertionError("it would wait for ever")
    world.isend(np.ones(4), me, 51)
    try:
        world.recv(np.zeros(1), me, 51)
    except unisono.InvalidArgument as error:
        assert "32 bytes" in str(error), error
    else:
        raise AssertionError("the message was too long")
    world.barrier()


@pytest.mark.parametrize(("ranks", "transport"), [(1, ""), (2, ""), (3, "tcp")])
def test_messages_to_oneself(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(own, counts=list(COUNTS))


def waits(world: Group) -> None:
    rank, n = world.rank, world.size
    others = [r for r in range(n) if r != rank]
    # They come in another order than they are waited for in.
    boxes = {r: np.zeros(1000 * (r + 1)) for r in others}
    arriving = [world.irecv(boxes[r], r, 2) for r in others]
    assert not unisono.test_all(arriving)
    assert unisono.wait_any(arriving, timeout=0.05) is None
    world.barrier()
    leaving = [world.isend(np.full(1000 * (rank + 1), float(rank)), r, 2) for r in others]
    seen = set()
    left = list(arriving)
    while left:
        i = unisono.wait_any(left)
        work = left.pop(i)
        assert work.done() and work.error() is None
        seen.add(work.received().source)
    assert seen == set(others) and unisono.test_all(arriving)
    unisono.wait_all(leaving)
    assert all((boxes[r] == r).all() for r in others)
    # Collectives and messages in one list.
    x, y = np.ones(5000), np.zeros(1)
    works = [world.all_reduce(x, async_op=True), world.irecv(y, (rank + 1) % n, 4)]
    world.send(np.array([7.0]), (rank - 1) % n, 4)
    unisono.wait_all(iter(works), timeout=30)
    assert (x == n).all() and y[0] == 7
    # One that nobody sends: the list goes on without it.
    never, soon = np.zeros(1), np.zeros(1)
    world.barrier()
    works = [world.irecv(never, (rank + 1) % n, 61, timeout=0.3), world.irecv(soon, (rank + 1) % n, 62)]
    world.send(np.array([8.0]), (rank - 1) % n, 62)
    try:
        unisono.wait_all(works)
    except unisono.Timeout as error:
        assert "tag 61" in str(error), error
    else:
        raise AssertionError("nobody sent it")
    assert soon[0] == 8 and unisono.test_all(works)
    works = [world.irecv(never, (rank + 1) % n, 61, timeout=0.1)]
    assert unisono.wait_any(works) == 0 and isinstance(works[0].error(), unisono.Timeout)
    works = [world.irecv(never, (rank + 1) % n, 63)]
    try:
        unisono.wait_all(works, timeout=0.1)
    except unisono.Timeout:
        assert not works[0].done()
    # And it is given up: the group goes on, and what comes then meets the next receive.
    assert works[0].cancel() and works[0].done() and not works[0].cancel()
    try:
        works[0].wait()
    except unisono.Aborted as error:
        assert "cancelled" in str(error) and "tag 63" in str(error), error
    else:
        raise AssertionError("it was cancelled")
    world.barrier()
    assert not world.isend(np.array([9.0]), (rank - 1) % n, 63).cancel()
    assert world.recv(soon, (rank + 1) % n, 63).bytes == 8 and soon[0] == 9 and never[0] == 0
    world.barrier()


@worlds
def test_waiting_for_several(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(waits)


def refused(world: Group) -> None:
    works: Any
    for works, words in (([], "nothing to wait for"), ([1], "works[0] is a int"), (3, "works is a int")):
        try:
            unisono.wait_any(works)
        except unisono.InvalidArgument as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)
    unisono.wait_all([])
    assert unisono.test_all([])
    x = np.zeros(1)
    calls: list[tuple[Any, tuple[Any, ...]]] = [
        (world.send, (x, (world.rank + 1) % world.size, unisono.ANY_TAG)),
        (world.probe, (world.size,)),
        (world.iprobe, (-3,)),
        (world.recv, (x, 0, unisono.ANY_TAG + 5)),
    ]
    for call, arguments in calls:
        try:
            call(*arguments)
        except unisono.InvalidArgument:
            continue
        raise AssertionError("not refused")
    world.send(x, unisono.NULL_RANK)
    assert world.isend(x, unisono.NULL_RANK).done()
    assert world.recv(x, unisono.NULL_RANK).source == unisono.NULL_RANK
    work = world.irecv(x, unisono.NULL_RANK)
    assert work.done() and work.received().bytes == 0


@worlds
def test_refused(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(refused)


def gone(world: Group) -> str:
    if world.rank == 1:
        world.send(np.ones(2), 0, 1)
        return ""
    world.probe(1, 1)
    try:
        world.probe(1, 2)
    except unisono.RankFailure as error:
        assert error.rank == 1
        return str(error)
    raise AssertionError("it was not sent")


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_a_sender_that_left(transport: str) -> None:
    said = launch(gone, 2, env={"UNISONO_TRANSPORT": transport}).values()[0]
    assert "rank 1" in said and "probe" in said and "tag 2" in said, said


def copies(world: Group) -> None:
    rank, n = world.rank, world.size
    again = world.dup()
    assert (again.rank, again.size) == (rank, n) and again.name != world.name
    # A message in one is not seen in the other.
    right, left = (rank + 1) % n, (rank - 1) % n
    world.send(np.array([1.0]), right)
    again.send(np.array([2.0]), right)
    x = np.zeros(1)
    again.recv(x, left)
    assert x[0] == 2
    world.recv(x, left)
    assert x[0] == 1
    mates = world.split_by_host()
    assert (mates.rank, mates.size) == ((rank, n) if mates.transport == "shm" else (0, 1)), mates
    turned = world.split_by_host(-rank)
    assert turned.size == 1 or turned.rank == n - 1 - rank


@worlds
def test_groups_of_the_same_ranks(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(copies)


def by_host(world: Group) -> list[Any]:
    mates = world.split_by_host()
    x = np.array([float(world.rank)])
    mates.all_reduce(x)
    return [mates.rank, mates.size, mates.transport, x[0]]


def test_groups_by_host() -> None:
    if why := why_no_hosts():
        pytest.skip(f"SKIPPED: {why}")
    with Hosts(2) as hosts:
        job = launch_on_hosts(by_host, hosts, 2)
    assert job.values() == [[0, 2, "shm", 1.0], [1, 2, "shm", 1.0], [0, 2, "shm", 5.0], [1, 2, "shm", 5.0]]

"""Messages from rank to rank: order, tags, any source, both directions, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import unisono
from harness import Pools, reference

Group = Any
worlds = pytest.mark.parametrize(
    ("ranks", "transport"), [(2, ""), (3, ""), (4, ""), (2, "tcp"), (4, "tcp")], ids=lambda value: str(value) or "shm"
)


def around(world: Group, count: int) -> None:
    rank, n = world.rank, world.size
    left, right = (rank - 1) % n, (rank + 1) % n
    x, y = reference.make("int64", count, rank), np.zeros(count, np.int64)
    # Everybody receives first, asynchronously.
    work = world.irecv(y, src=left, tag=1)
    world.send(x, dst=right, tag=1)
    work.wait()
    got = work.received()
    assert (got.source, got.tag, got.bytes) == (left, 1, 8 * count), got
    reference.check(y, reference.make("int64", count, left))
    # Everybody sends first, asynchronously.
    y[:] = 0
    work = world.isend(x, dst=left, tag=2)
    got = world.recv(y, src=right, tag=2)
    work.wait()
    assert (got.source, got.tag, got.bytes) == (right, 2, 8 * count), got
    reference.check(y, reference.make("int64", count, right))


@worlds
@pytest.mark.parametrize("count", [0, 1, 1000, 200_001])
def test_around_the_ring(pools: Pools, ranks: int, transport: str, count: int) -> None:
    pools(ranks, transport).run(around, count=count)


def both(world: Group) -> None:
    # Blocking sends in both directions at once: small ones do not wait for a receiver.
    for other in range(world.size):
        if other != world.rank:
            world.send(np.array([world.rank * 100 + other]), dst=other)
    for other in range(world.size):
        if other != world.rank:
            y = np.zeros(1, np.int64)
            world.recv(y, src=other)
            assert y[0] == other * 100 + world.rank


@worlds
def test_both_send_first(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(both)


def ordered(world: Group, messages: int) -> None:
    # Two tags, each in its order; received tag by tag, against the order of sending.
    if world.rank == 0:
        for i in range(messages):
            for tag in (1, 2):
                world.send(np.full(1 + i % 5, i * 10 + tag), dst=1, tag=tag)
    elif world.rank == 1:
        for tag in (2, 1):
            for i in range(messages):
                y = np.zeros(10, np.int64)
                got = world.recv(y, src=0, tag=tag)
                assert got.bytes == 8 * (1 + i % 5)
                assert (y[: 1 + i % 5] == i * 10 + tag).all() and not y[1 + i % 5 :].any()
    world.barrier()


@worlds
def test_tags_and_order(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(ordered, messages=30)


def anybody(world: Group, rounds: int) -> None:
    if world.rank != 0:
        for i in range(rounds):
            world.send(np.array([world.rank, i]), dst=0, tag=3)
        return
    counts = [0] * world.size
    for _ in range(rounds * (world.size - 1)):
        y = np.zeros(2, np.int64)
        got = world.recv(y, tag=3)
        assert got.source == y[0] and got.tag == 3
        assert y[1] == counts[got.source], "a message overtook another of the same rank"
        counts[got.source] += 1
    assert counts == [0] + [rounds] * (world.size - 1)


@worlds
def test_from_any_rank(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(anybody, rounds=20)


def flights(world: Group, count: int) -> None:
    # All to all by hand: everything posted at once, in different orders.
    rank, n = world.rank, world.size
    others = [r for r in range(n) if r != rank]
    boxes = {r: np.zeros(count) for r in others}
    receives = [world.irecv(boxes[r], src=r, tag=7) for r in others]
    sends = [world.isend(np.full(count, rank * 10.0 + r), dst=r, tag=7) for r in reversed(others)]
    for work in [*sends, *receives]:
        work.wait()
    for r in others:
        assert (boxes[r] == r * 10.0 + rank).all()


@worlds
@pytest.mark.parametrize("count", [1, 100_000])
def test_many_in_flight(pools: Pools, ranks: int, transport: str, count: int) -> None:
    pools(ranks, transport).run(flights, count=count)


def strided(world: Group) -> None:
    x = np.arange(24).reshape(4, 6)
    if world.rank == 0:
        world.send(x[:, ::2], dst=1)
    elif world.rank == 1:
        y = np.full((12, 2), -1)
        got = world.recv(y[:, 0], src=0)
        assert got.bytes == 12 * 8
        assert (y[:, 0] == x[:, ::2].ravel()).all() and (y[:, 1] == -1).all()
    world.barrier()


@worlds
def test_not_contiguous(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(strided)


def refused(world: Group) -> list[str]:
    x, messages = np.zeros(4), []
    calls: list[Callable[[], object]] = [
        lambda: world.send(x, dst=world.rank),
        lambda: world.recv(x, src=world.rank),
        lambda: world.send(x, dst=world.size),
        lambda: world.send(x, dst=-1),
        lambda: world.recv(x, src=world.size + 3),
        lambda: world.recv(b"read-only", src=(world.rank + 1) % world.size),
    ]
    for call in calls:
        try:
            call()
        except unisono.InvalidArgument as error:
            messages.append(str(error))
        else:
            messages.append("not refused")
    return messages


@worlds
def test_refused(pools: Pools, ranks: int, transport: str) -> None:
    for rank, messages in enumerate(pools(ranks, transport).run(refused)):
        assert "itself" in messages[0] and "itself" in messages[1], messages[:2]
        for message, number in zip(messages[2:5], (ranks, -1, ranks + 3), strict=True):
            assert str(number) in message, message
        assert "read-only" in messages[5], rank


def too_long(world: Group) -> str:
    # On a group of its own, for this may end it.
    group = world.subgroup(range(world.size))
    if world.rank == 0:
        group.send(np.zeros(100), dst=1, tag=4)
    elif world.rank == 1:
        try:
            group.recv(np.zeros(3), src=0, tag=4)
        except unisono.Error as error:
            return str(error)
        return "not refused"
    return ""


@worlds
def test_a_message_longer_than_the_array(pools: Pools, ranks: int, transport: str) -> None:
    message = pools(ranks, transport).run(too_long)[1]
    assert "800" in message and "24" in message, message


def handed_over(world: Group) -> None:
    # Between processes, from and to memory that both reach, on one side or both.
    rank, n = world.rank, world.size
    for count in (8_192, 20_001, 3_000_000):
        for kinds in range(4):
            x = world.empty(count, "int64") if kinds & 1 else np.empty(count, np.int64)
            y = world.empty(count, "int64") if kinds & 2 else np.empty(count, np.int64)
            for step in range(1, n):
                x[:] = reference.make("int64", count, rank * n + step)
                y[:] = -1
                work = [
                    world.isend(x, dst=(rank + step) % n, tag=step),
                    world.irecv(y, src=(rank - step) % n, tag=step),
                ]
                for w in work:
                    w.wait()
                reference.check(y, reference.make("int64", count, (rank - step) % n * n + step))


@worlds
def test_large_ones_in_shared_memory(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(handed_over)

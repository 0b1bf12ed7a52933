"""Groups within the world: made by their members only, in any order, many at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import unisono
from harness import Pools

Group = Any
worlds = pytest.mark.parametrize(
    ("ranks", "transport"), [(3, ""), (4, ""), (4, "tcp")], ids=lambda value: str(value) or "shm"
)


def members_only(world: Group) -> None:
    rank, n = world.rank, world.size
    if rank != 1:
        return_order = [r for r in reversed(range(n)) if r != 1]
        group = world.subgroup(return_order)
        assert (group.size, group.rank) == (n - 1, return_order.index(rank))
        x = np.array([float(rank)])
        group.all_reduce(x)
        assert x[0] == sum(return_order)
        x = np.array([float(rank)])
        group.broadcast(x, root=0)
        assert x[0] == return_order[0]
        again = world.subgroup(return_order)  # the same list again: another group
        assert again.name != group.name
        again.barrier()
        for g in (group, again):
            g.destroy()
    # The world, and groups made later, are not disturbed by what some did.
    world.barrier()
    x = np.array([1.0])
    everybody = world.subgroup(range(n))
    everybody.all_reduce(x)
    assert x[0] == n
    everybody.destroy()


@worlds
def test_made_by_members_only(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(members_only)


def one(world: Group) -> None:
    alone = world.subgroup([world.rank])
    assert (alone.rank, alone.size) == (0, 1)
    x = np.array([3.0])
    alone.all_reduce(x)
    alone.barrier()
    assert x[0] == 3.0
    alone.destroy()


@worlds
def test_of_one(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(one)


def splitting(world: Group) -> list[Any]:
    rank = world.rank
    group = world.split(rank % 2, key=-rank)
    x = np.array([10.0**rank])
    group.all_reduce(x)
    result = [group.rank, group.size, x[0]]
    group.destroy()
    none = world.split(-1 if rank == 0 else 7)
    assert (none is None) == (rank == 0)
    if none is not None:
        assert (none.rank, none.size) == (rank - 1, world.size - 1)
        none.barrier()
        none.destroy()
    return result


@worlds
def test_split(pools: Pools, ranks: int, transport: str) -> None:
    for rank, (inner, size, total) in enumerate(pools(ranks, transport).run(splitting)):
        members = [r for r in reversed(range(ranks)) if r % 2 == rank % 2]
        assert (inner, size) == (members.index(rank), len(members))
        assert total == sum(10.0**r for r in members)


def many(world: Group, count: int) -> None:
    rank, n = world.rank, world.size
    groups = [world.subgroup([r for r in range(n) if r != i % n]) if rank != i % n else None for i in range(count)]
    works = []
    for i, group in enumerate(groups):
        if group is not None:
            x = np.full(1000 * (i % 3), float(i))
            works.append((x, group.all_reduce(x, async_op=True), i))
    for x, work, i in reversed(works):
        work.wait()
        assert (x == i * (n - 1)).all()
    for group in groups:
        if group is not None:
            group.destroy()


@worlds
def test_many_at_once(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(many, count=20)


def nested(world: Group) -> None:
    half = world.split(world.rank * 2 // world.size)
    leader = half.split(0 if half.rank == 0 else -1)
    assert (leader is not None) == (half.rank == 0)
    x = np.array([float(world.rank)])
    half.broadcast(x, root=half.size - 1)
    inner = half.subgroup(range(half.size))
    inner.barrier()
    for group in (leader, inner, half):
        if group is not None:
            group.destroy()
            assert group.destroyed
            try:
                group.barrier()
            except unisono.InvalidArgument as error:
                assert "destroy" in str(error)
            else:
                raise AssertionError("a destroyed group was used")


@worlds
def test_groups_of_groups(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(nested)


def leaving(world: Group) -> str:
    # A with statement that is left by an exception ends the others' waiting, and says why.
    if world.rank == 0:
        try:
            with world.subgroup(range(world.size)) as group:
                raise ValueError("the disk is full")
        except ValueError:
            return "raised"
    group = world.subgroup(range(world.size))
    try:
        group.barrier()
    except unisono.Aborted as error:
        return str(error)
    return "nothing"


@worlds
def test_left_by_an_exception(pools: Pools, ranks: int, transport: str) -> None:
    first, *others = pools(ranks, transport).run(leaving)
    assert first == "raised"
    for message in others:
        assert "rank 0" in message and "the disk is full" in message

"""Every collective against NumPy: dtypes, operations, sizes, roots, in and out of place, blocking and asynchronous."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from harness import Pools, reference

WORLDS = [(1, ""), (2, ""), (3, ""), (4, ""), (2, "tcp"), (3, "tcp"), (4, "tcp")]
worlds = pytest.mark.parametrize(("ranks", "transport"), WORLDS, ids=lambda value: str(value) or "shm")
dtypes = pytest.mark.parametrize("dtype", reference.DTYPES)
Group = Any


def all_reduce(world: Group, dtype: str, sizes: list[int]) -> None:
    for count in sizes:
        inputs = [reference.make(dtype, count, r) for r in range(world.size)]
        mine = inputs[world.rank]
        for op in reference.ops(dtype):
            expected = reference.combine(op, inputs)
            x = mine.copy()
            world.all_reduce(x, op)
            reference.check(x, expected, op, dtype, count, "in place")
            out = np.zeros_like(mine)
            world.all_reduce(mine, op, out=out)
            reference.check(out, expected, op, dtype, count, "out of place")
            reference.check(mine, reference.make(dtype, count, world.rank), "the input was changed")
            x = mine.copy()
            world.all_reduce(x, op, async_op=True).wait()
            reference.check(x, expected, op, dtype, count, "asynchronous")


def reduce(world: Group, dtype: str, sizes: list[int]) -> None:
    for count in sizes:
        inputs = [reference.make(dtype, count, r) for r in range(world.size)]
        mine = inputs[world.rank]
        for op in reference.ops(dtype):
            for root in range(world.size):
                expected = reference.combine(op, inputs)
                x = mine.copy()
                world.reduce(x, root, op)
                reference.check(x, expected if world.rank == root else mine, op, dtype, count, root, "in place")
                x, out = mine.copy(), np.zeros_like(mine)
                work = world.reduce(x, root, op, out=out, async_op=True)
                work.wait()
                reference.check(x, mine, "the input was changed", op, root)
                if world.rank == root:
                    reference.check(out, expected, op, dtype, count, root, "out of place")
                else:
                    assert not out.any(), "out was written on a rank that is not the root"


def broadcast(world: Group, dtype: str, sizes: list[int]) -> None:
    for count in sizes:
        for root in range(world.size):
            expected = reference.make(dtype, count, root)
            x = reference.make(dtype, count, world.rank)
            x.flags.writeable = world.rank != root  # the root's is only read
            world.broadcast(x, root)
            reference.check(x, expected, dtype, count, root)
            x = reference.make(dtype, count, world.rank)
            world.broadcast(x, root, async_op=True).wait()
            reference.check(x, expected, dtype, count, root, "asynchronous")


def all_gather(world: Group, dtype: str, sizes: list[int]) -> None:
    for count in sizes:
        inputs = [reference.make(dtype, count, r) for r in range(world.size)]
        mine, expected = inputs[world.rank], np.concatenate(inputs)
        out = np.zeros_like(expected)
        world.all_gather(mine, out)
        reference.check(out, expected, dtype, count)
        out = np.zeros_like(expected)
        own = out[world.rank * count : (world.rank + 1) * count]
        own[:] = mine
        world.all_gather(own, out, async_op=True).wait()
        reference.check(out, expected, dtype, count, "in place")
        parts = world.all_gather(mine)
        assert isinstance(parts, list) and len(parts) == world.size
        for part, each in zip(parts, inputs, strict=True):
            reference.check(part, each, dtype, count, "as a list")


def gather(world: Group, dtype: str, sizes: list[int]) -> None:
    for count in sizes:
        inputs = [reference.make(dtype, count, r) for r in range(world.size)]
        mine, expected = inputs[world.rank], np.concatenate(inputs)
        for root in range(world.size):
            if world.rank == root:
                out = np.zeros_like(expected)
                world.gather(mine, out, root)
                reference.check(out, expected, dtype, count, root)
                parts = world.gather(mine, root=root)
                reference.check(np.concatenate(parts), expected, dtype, count, root, "as a list")
            else:
                assert world.gather(mine, root=root) is None
                assert world.gather(mine, root=root) is None
            box = np.zeros_like(expected) if world.rank == root else None
            world.gather(mine, box, root, async_op=True).wait()
            if box is not None:
                reference.check(box, expected, dtype, count, root, "asynchronous")
            reference.check(mine, reference.make(dtype, count, world.rank), "the input was changed")


def scatter(world: Group, dtype: str, sizes: list[int]) -> None:
    for count in sizes:
        for root in range(world.size):
            parts = [reference.make(dtype, count, r, seed=root) for r in range(world.size)]
            whole = np.concatenate(parts) if world.rank == root else None
            out = np.zeros(count, dtype)
            world.scatter(whole, out, root)
            reference.check(out, parts[world.rank], dtype, count, root)
            out = np.zeros(count, dtype)
            if whole is not None:  # in place: the root's own part of the whole
                out = whole[root * count : (root + 1) * count]
            world.scatter(whole, out, root, async_op=True).wait()
            reference.check(out, parts[world.rank], dtype, count, root, "in place")


def reduce_scatter(world: Group, dtype: str, sizes: list[int]) -> None:
    for count in sizes:
        inputs = [reference.make(dtype, count * world.size, r) for r in range(world.size)]
        mine, own = inputs[world.rank], slice(world.rank * count, (world.rank + 1) * count)
        for op in reference.ops(dtype):
            expected = reference.combine(op, inputs)[own]
            out = np.zeros(count, dtype)
            world.reduce_scatter(mine, out, op)
            reference.check(out, expected, op, dtype, count)
            reference.check(mine, reference.make(dtype, count * world.size, world.rank), "the input was changed")
            reference.check(world.reduce_scatter(mine, op=op), expected, op, dtype, count, "new array")
            x = mine.copy()
            world.reduce_scatter(x, x[own], op, async_op=True).wait()
            reference.check(x[own], expected, op, dtype, count, "in place")


def all_to_all(world: Group, dtype: str, sizes: list[int]) -> None:
    for count in sizes:
        inputs = [reference.make(dtype, count * world.size, r) for r in range(world.size)]
        mine = inputs[world.rank]
        expected = np.concatenate([x.reshape(world.size, count)[world.rank] for x in inputs])
        out = np.zeros_like(mine)
        world.all_to_all(mine, out)
        reference.check(out, expected, dtype, count)
        reference.check(world.all_to_all(mine), expected, dtype, count, "new array")
        out = np.zeros_like(mine)
        world.all_to_all(mine, out, async_op=True).wait()
        reference.check(out, expected, dtype, count, "asynchronous")
        reference.check(mine, reference.make(dtype, count * world.size, world.rank), "the input was changed")


COLLECTIVES = (all_reduce, reduce, broadcast, all_gather, gather, scatter, reduce_scatter, all_to_all)


@pytest.mark.parametrize("collective", COLLECTIVES, ids=lambda function: function.__name__)
@worlds
@dtypes
def test_against_numpy(pools: Pools, ranks: int, transport: str, collective: Any, dtype: str) -> None:
    sizes = [size for size in reference.SIZES if size < 1000 or dtype in ("float32", "float64", "uint8")]
    pools(ranks, transport).run(collective, dtype=dtype, sizes=sizes)


def barrier(world: Group) -> list[float]:
    # Rank 0 comes late; nobody may leave before it has come.
    world.barrier()
    if world.rank == 0:
        time.sleep(0.2)
    arrived = time.monotonic()
    world.barrier()
    return [arrived, time.monotonic()]


@worlds
def test_barrier(pools: Pools, ranks: int, transport: str) -> None:
    times = pools(ranks, transport).run(barrier)
    assert min(left for _, left in times) >= times[0][0]


def single_numbers(world: Group) -> None:
    n, rank = world.size, world.rank
    total = n * (n + 1) // 2
    for mine, expected in (
        (rank + 1, total),
        (rank + 1.5, total + 0.5 * n),
        (complex(rank, 1), complex(total - n, n)),
        (True, n),
        (np.float32(rank + 1), np.float32(total)),
        (np.float64(rank + 1), np.float64(total)),
        (np.int16(rank + 1), np.int16(total)),
        (np.True_, np.True_),
    ):
        got = world.all_reduce(mine)
        assert got == expected and type(got) is type(expected), (mine, got)
        got = world.reduce(mine, root=n - 1)
        assert (got == expected and type(got) is type(expected)) if rank == n - 1 else got is None, (mine, got)
    assert world.all_reduce(rank, "max") == n - 1 and world.all_reduce(-1.5, "avg") == -1.5


@pytest.mark.parametrize(("ranks", "transport"), [(2, ""), (3, "tcp")])
def test_single_numbers(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(single_numbers)

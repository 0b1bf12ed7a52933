"""Parts that differ in size: counts, with zeros among them, in every collective that has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import unisono
from harness import Pools, reference

Group = Any


def gathering(world: Group, counts: list[int], dtype: str) -> None:
    rank, n = world.rank, world.size
    inputs = [reference.make(dtype, counts[r], r) for r in range(n)]
    expected = np.concatenate(inputs)
    out = np.zeros_like(expected)
    world.all_gather(inputs[rank], out, counts=counts)
    reference.check(out, expected, "all_gather", counts)
    for part, each in zip(world.all_gather(inputs[rank], counts=counts), inputs, strict=True):
        reference.check(part, each, "all_gather as a list", counts)
    for root in range(n):
        out = np.zeros_like(expected)
        world.gather(inputs[rank], out if rank == root else None, root, counts=counts)
        if rank == root:
            reference.check(out, expected, "gather", counts)
        parts = world.gather(inputs[rank], root=root, counts=counts)
        assert (parts is not None) == (rank == root)
        if parts is not None:
            reference.check(np.concatenate(parts), expected, "gather as a list", counts)


def scattering(world: Group, counts: list[int], dtype: str) -> None:
    rank, n = world.rank, world.size
    total = sum(counts)
    begins = np.cumsum([0, *counts])
    own = slice(begins[rank], begins[rank + 1])
    for root in range(n):
        whole = reference.make(dtype, total, root)
        out = np.zeros(counts[rank], dtype)
        world.scatter(whole if rank == root else None, out, root, counts=counts)
        reference.check(out, whole[own], "scatter", counts)
    inputs = [reference.make(dtype, total, r) for r in range(n)]
    for op in reference.ops(dtype):
        expected = reference.combine(op, inputs)[own]
        out = np.zeros(counts[rank], dtype)
        world.reduce_scatter(inputs[rank], out, op, counts=counts)
        reference.check(out, expected, op, "reduce_scatter", counts)
        reference.check(world.reduce_scatter(inputs[rank], op=op, counts=counts), expected, op, "new array", counts)


def exchanging(world: Group, matrix: list[list[int]], dtype: str) -> None:
    # matrix[i][j] elements go from rank i to rank j.
    rank, n = world.rank, world.size
    columns = [[matrix[i][j] for i in range(n)] for j in range(n)]
    inputs = [reference.make(dtype, sum(matrix[r]), r) for r in range(n)]
    sent = [np.split(inputs[r], np.cumsum(matrix[r])[:-1]) for r in range(n)]
    expected = np.concatenate([sent[r][rank] for r in range(n)])
    out = np.zeros_like(expected)
    world.all_to_all(inputs[rank], out, counts=matrix[rank], output_counts=columns[rank])
    reference.check(out, expected, "all_to_all", matrix)
    fresh = world.all_to_all(inputs[rank], counts=matrix[rank], output_counts=columns[rank])
    reference.check(fresh, expected, "all_to_all, new array", matrix)
    out = np.zeros_like(expected)
    world.all_to_all(inputs[rank], out, counts=matrix[rank], output_counts=columns[rank], async_op=True).wait()
    reference.check(out, expected, "all_to_all, asynchronous", matrix)


worlds = pytest.mark.parametrize(
    ("ranks", "transport"), [(1, ""), (2, ""), (3, ""), (4, ""), (3, "tcp")], ids=lambda value: str(value) or "shm"
)


@worlds
@pytest.mark.parametrize("total", [0, 1, 10, 1000, 200_003])
def test_counts(pools: Pools, ranks: int, transport: str, total: int) -> None:
    for seed in range(3):
        counts = reference.parts(total, ranks, seed)
        pools(ranks, transport).run(gathering, counts=counts, dtype="float32")
        pools(ranks, transport).run(scattering, counts=counts, dtype="int32")


@worlds
def test_all_to_all(pools: Pools, ranks: int, transport: str) -> None:
    rng = np.random.default_rng(ranks)
    for highest in (1, 5, 30_000):
        matrix = rng.integers(0, highest + 1, (ranks, ranks)).tolist()
        pools(ranks, transport).run(exchanging, matrix=matrix, dtype="float64")


def varying(world: Group) -> None:
    rank, n = world.rank, world.size
    for dtype in ("float64", "int8", "S3", "M8[s]"):
        for width in ((), (3,), (2, 5)):
            everyone = [np.arange(4 * r * int(np.prod(width))).reshape(4 * r, *width).astype(dtype) for r in range(n)]
            parts = world.all_gather_varying(everyone[rank])
            assert [part.shape for part in parts] == [x.shape for x in everyone], parts
            assert all((part == x).all() and part.dtype == x.dtype for part, x in zip(parts, everyone, strict=True))
            parts[0][...] = parts[0]  # they are the caller's to write to
    large = world.all_gather_varying(np.full(100_000 * (rank + 1), rank)[::2])
    assert [len(part) for part in large] == [50_000 * (r + 1) for r in range(n)]
    assert all((part == r).all() for r, part in enumerate(large))
    assert world.all_gather_varying(np.zeros(0))[n - 1].size == 0
    calls: list[tuple[Any, str]] = [(np.float64(3), "no dimension")]
    if n > 1:
        calls.append((np.zeros((2, 3 + rank)), "only the first dimension may differ"))
    for x, words in calls:
        try:
            world.all_gather_varying(x)
        except unisono.InvalidArgument as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)
    world.barrier()


@worlds
def test_lengths_that_nobody_knows(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(varying)

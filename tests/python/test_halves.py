"""16-bit floating sums: right to half a unit in the last place of the exact sum, over every transport and algorithm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import Pools

Group = Any

# The engine's tests have every algorithm; what processes and shared memory add is seen with three ranks.
MORE = [(2, ""), (4, ""), (4, "tcp"), (5, "tcp")]
WORLDS = [(3, ""), (3, "tcp"), *(pytest.param(*world, marks=pytest.mark.long) for world in MORE)]


def sums(world: Group, half: str, sizes: list[int]) -> float:
    """The largest error found, in units of the last place, but for what f32 makes of sums that almost cancel."""
    import ml_dtypes

    dtype, digits = np.dtype(getattr(ml_dtypes, half, half)), {"float16": 11, "bfloat16": 8}[half]
    n, worst = world.size, 0.0

    def off(got: Any, exact: Any) -> float:
        unit = np.exp2(np.floor(np.log2(np.maximum(np.abs(exact), 2.0**-14))) + 1 - digits)
        error = np.maximum(np.abs(got.astype(np.float64) - exact) - 16 * n * np.finfo(np.float32).eps, 0)
        return float(np.max(error / unit, initial=0.0))

    for count in sizes:
        inputs = [np.random.default_rng((q, count)).normal(size=count * n).astype(dtype) for q in range(n)]
        exact = np.sum([x.astype(np.float64) for x in inputs], axis=0)
        mine = inputs[world.rank]
        for op, factor in (("sum", 1), ("avg", n)):
            x = mine.copy()
            world.all_reduce(x, op)
            worst = max(worst, off(x, exact / factor))
            x = mine.copy()
            world.reduce(x, n - 1, op)
            worst = max(worst, off(x, exact / factor) if world.rank == n - 1 else 0)
            part = world.reduce_scatter(mine, op=op)
            own = slice(count * world.rank, count * (world.rank + 1))
            worst = max(worst, off(part, (exact / factor)[own]))
            x = mine.copy()
            world.all_reduce(x, op, async_op=True).wait()
            worst = max(worst, off(x, exact / factor))
    return worst


@pytest.mark.parametrize(("ranks", "transport"), WORLDS, ids=lambda value: str(value) or "shm")
@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_sums_are_rounded_once(pools: Pools, ranks: int, transport: str, half: str) -> None:
    for worst in pools(ranks, transport).run(sums, half=half, sizes=[1, 100, 5_000, 300_001]):
        assert worst <= 0.51


def extremes(world: Group) -> list[float]:
    n, results = world.size, []
    x = np.full(1000, 60_000, np.float16)  # twice that is more than an f16 can hold
    world.all_reduce(x, "avg")
    results.append(float(x[0]))
    x = np.full(1000, 2048 if world.rank == 0 else 1, np.float16)
    world.all_reduce(x)
    results.append(float(x[0]) - float(np.float16(2048 + n - 1)))
    x = np.full(1000, 300 if world.rank < 2 else 1 / 16, np.float16)  # 90 000 on the way to less
    world.all_reduce(x, "product")
    results.append(float(x[0]) - float(np.float16(90_000 * (1 / 16) ** (n - 2))))
    x = np.full(10, np.nan if world.rank == n - 1 else 1, np.float16)
    world.all_reduce(x)
    results.append(float(x.view(np.uint16)[0]))
    return results


@pytest.mark.parametrize("transport", ["", "tcp"], ids=["shm", "tcp"])
def test_partial_sums_may_be_out_of_range(pools: Pools, transport: str) -> None:
    for results in pools(4, transport).run(extremes):
        assert results == [60_000, 0, 0, 0x7E00]

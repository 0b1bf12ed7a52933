"""How the programs in Python measure: per size, the median over calls of the slowest rank, as `unisono bench` does."""

import json
import time
from collections.abc import Callable

WARMUP, SAMPLES, FEWEST, MOST = 5, 5, 10, 20000


def time_calls(call: Callable[[], object], barrier: Callable[[], object], calls: int) -> list[float]:
    """Seconds of each of `calls` calls on this rank."""
    seconds = [0.0] * calls
    barrier()
    start = time.perf_counter()
    for i in range(calls):
        call()
        end = time.perf_counter()
        seconds[i] = end - start
        start = end
    return seconds


def wanted_calls(call: Callable[[], object], barrier: Callable[[], object], budget: float) -> int:
    """As many calls as fit into `budget` seconds, by what a few took; the ranks must agree on rank 0's."""
    for _ in range(WARMUP):
        call()
    sample = sorted(time_calls(call, barrier, SAMPLES))[SAMPLES // 2]
    return int(min(max(budget / max(sample, 1e-9), FEWEST), MOST))


def report(size: int, ranks: int, slowest: list[float]) -> None:
    """Print the row of one size."""
    slowest = sorted(slowest)
    row = {"bytes": size, "ranks": ranks, "time_us": round(slowest[len(slowest) // 2] * 1e6, 4), "calls": len(slowest)}
    print(json.dumps(row), flush=True)

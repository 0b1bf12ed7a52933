"""How the programs in Python measure: per size, the median over calls of the slowest rank, as `unisono bench` does."""

import json
import time
from collections.abc import Callable

WARMUP, SAMPLES, FEWEST, PORTIONS, LARGEST_PORTION = 5, 5, 10, 10, 2000


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


def time_enough_calls(
    call: Callable[[], object], barrier: Callable[[], object], agree: Callable[[int], int], budget: float
) -> list[float]:
    """Seconds of each call on this rank, as many as fit into `budget` seconds.

    They come in portions; `agree` gives every rank what rank 0 passes to it.
    """
    for _ in range(WARMUP):
        call()
    sample = sorted(time_calls(call, barrier, SAMPLES))[SAMPLES // 2]
    portion = agree(int(min(max(budget / PORTIONS / max(sample, 1e-9), 1), LARGEST_PORTION)))
    begin = time.perf_counter()
    seconds: list[float] = []
    more = True
    while more:
        seconds += time_calls(call, barrier, portion)
        time_left = time.perf_counter() - begin < budget
        more = bool(agree(len(seconds) < FEWEST or (time_left and len(seconds) < portion * PORTIONS)))
    return seconds


def report(size: int, ranks: int, slowest: list[float]) -> None:
    """Print the row of one size."""
    slowest = sorted(slowest)
    row = {"bytes": size, "ranks": ranks, "time_us": round(slowest[len(slowest) // 2] * 1e6, 4), "calls": len(slowest)}
    print(json.dumps(row), flush=True)

"""How much of an asynchronous all_reduce is hidden behind a matrix product.

usage: unisono run ... -- python unisono_overlap.py BYTES [CALLS]   prints a line of JSON on rank 0
"""

import json
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import unisono


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    size, calls = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 8
    world = unisono.init()
    data = np.ones(size // 4, dtype=np.float32)
    a = np.ones((512, 512), dtype=np.float32)

    def reduce() -> None:
        world.all_reduce(data)

    # A product that takes longer than the all_reduce, the same on all ranks.
    alone = statistics.median(timed(reduce) for _ in range(4))
    product = statistics.median(timed(lambda: a @ a) for _ in range(20))
    said = np.array([1.5 * alone / product])
    world.broadcast(said, 0)
    products = max(1, int(said[0]))

    def compute() -> None:
        for _ in range(products):
            a @ a

    def both() -> None:
        work = world.all_reduce(data, async_op=True)
        compute()
        work.wait()

    times: dict[str, list[float]] = {"reduce": [], "compute": [], "both": []}
    for _ in range(calls):
        for call in (reduce, compute, both):
            world.barrier()
            slowest = np.array([timed(call)])
            world.all_reduce(slowest, op="max")
            times[call.__name__].append(float(slowest[0]))
    if world.rank == 0:
        row = {f"{name}_us": round(statistics.median(t) * 1e6, 1) for name, t in times.items()}
        exposed = [b - c for b, c in zip(times["both"], times["compute"], strict=True)]
        hidden = 1 - statistics.median(exposed) / statistics.median(times["reduce"])
        print(json.dumps({"bytes": size, "ranks": world.size, **row, "hidden": round(hidden, 4)}), flush=True)


if __name__ == "__main__":
    main()

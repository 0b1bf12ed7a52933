"""Overlap: start operations, compute, and wait when the results are needed.

async_op=True returns a Work at once; a thread of the library carries the operation on. Several may be in flight, as
long as all ranks start them in the same order. Do not touch an array before its Work is done.

unisono run -n 2 -- python examples/05_overlap.py
"""

import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread a rank: NumPy's own would compete for the cores

import numpy as np
import unisono

CHUNKS, COUNT, SIDE = 8, 250_000, 192

with unisono.init() as world:
    rng = np.random.default_rng(world.rank)
    matrix = rng.standard_normal((SIDE, SIDE))

    def compute() -> float:
        """Keep this rank busy for a little while."""
        return float(sum(np.tanh(matrix @ matrix).sum() for _ in range(2)))

    def in_turn(chunks: list[np.ndarray]) -> None:
        """Finish each operation before the computation."""
        for chunk in chunks:
            world.all_reduce(chunk)
            compute()

    def overlapped(chunks: list[np.ndarray]) -> None:
        """Compute while operations are in flight."""
        works = []
        for chunk in chunks:
            works.append(world.all_reduce(chunk, async_op=True))
            compute()
        for work in works:
            work.wait()

    times = {}
    for name, run in {"warm up": in_turn, "in turn": in_turn, "overlapped": overlapped}.items():
        chunks = [np.full(COUNT, world.rank + 1.0) for _ in range(CHUNKS)]
        world.barrier()
        start = time.perf_counter()
        run(chunks)
        times[name] = time.perf_counter() - start
        assert all((chunk == world.size * (world.size + 1) / 2).all() for chunk in chunks)

    # A Work can be asked, and waited for with a timeout: the operation itself goes on.
    x = np.ones(3)
    work = world.all_reduce(x, async_op=True)
    work.wait(timeout=30)
    assert work.done() and work.error() is None and (x == world.size).all()

    if world.rank == 0:
        print(f"{CHUNKS} all_reduces of {COUNT} numbers and as many computations:", end=" ")
        print(f"in turn {1e3 * times['in turn']:.1f} ms, overlapped {1e3 * times['overlapped']:.1f} ms")

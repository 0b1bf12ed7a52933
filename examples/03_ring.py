"""A ring all-reduce written by hand on isend and irecv, and the library's beside it.

Each rank's array is cut into as many chunks as there are ranks. In n - 1 steps every chunk travels round the ring and
collects a contribution at each stop; in n - 1 more the finished chunks travel round again. Each rank sends
2 (n - 1) / n of its array.

unisono run -n 4 -- python examples/03_ring.py
"""

import time

import numpy as np
import unisono

COUNT = 1_000_000


def ring_all_reduce(world: unisono.Group, x: np.ndarray) -> None:
    """Replace x by the sum over all ranks."""
    n, rank = world.size, world.rank
    left, right = (rank - 1) % n, (rank + 1) % n
    if n == 1:
        return  # sending to oneself is an error
    chunks = np.array_split(x, n)
    inbox = np.empty_like(chunks[0])  # the first chunk is the longest
    for step in range(n - 1):  # reduce-scatter: afterwards rank r holds the finished chunk r + 1
        outgoing, incoming = chunks[(rank - step) % n], chunks[(rank - step - 1) % n]
        received = world.irecv(inbox[: incoming.size], src=left, tag=step)
        sent = world.isend(outgoing, dst=right, tag=step)
        received.wait()
        incoming += inbox[: incoming.size]
        sent.wait()
    for step in range(n - 1):  # all-gather
        outgoing, incoming = chunks[(rank - step + 1) % n], chunks[(rank - step) % n]
        received = world.irecv(incoming, src=left, tag=n + step)
        sent = world.isend(outgoing, dst=right, tag=n + step)
        received.wait()
        sent.wait()


with unisono.init() as world:
    mine = np.random.default_rng(world.rank).standard_normal(COUNT)
    by_hand, by_library = mine.copy(), mine.copy()

    world.barrier()
    start = time.perf_counter()
    ring_all_reduce(world, by_hand)
    middle = time.perf_counter()
    world.all_reduce(by_library)
    end = time.perf_counter()

    np.testing.assert_allclose(by_hand, by_library, atol=1e-9)
    if world.rank == 0:
        print(f"{COUNT} numbers on {world.size} ranks: equal; ring by hand {1e3 * (middle - start):.2f} ms,", end=" ")
        print(f"all_reduce {1e3 * (end - middle):.2f} ms")

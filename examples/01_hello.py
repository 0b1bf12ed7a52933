"""Hello: who am I, and what do the others say?

unisono run -n 4 -- python examples/01_hello.py     (or without a launcher: a world of one)
"""

import os

import numpy as np
import unisono

with unisono.init() as world:
    print(f"rank {world.rank} of {world.size}, process {os.getpid()}, over {world.transport}", flush=True)

    # Every rank learns every rank's process id: the i-th entry is rank i's.
    pids = world.all_gather(np.array([os.getpid()]))
    assert int(pids[world.rank][0]) == os.getpid()

    world.barrier()
    if world.rank == 0:
        print("all here:", ", ".join(f"{rank}: {pid[0]}" for rank, pid in enumerate(pids)))

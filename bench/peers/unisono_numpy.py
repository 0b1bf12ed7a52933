"""unisono's all_reduce of a NumPy array, from Python.

usage: unisono run -n RANKS -- python unisono_numpy.py SECONDS BYTES...
"""

import sys

import numpy as np
import unisono
from timing import report, time_calls, wanted_calls


def measure(world: unisono.Group, budget: float, size: int) -> None:
    data = np.zeros(size // 4, dtype=np.float32)

    def call() -> None:
        world.all_reduce(data)

    calls = np.array([wanted_calls(call, world.barrier, budget)])
    world.broadcast(calls, 0)
    slowest = np.array(time_calls(call, world.barrier, int(calls[0])))
    world.all_reduce(slowest, op="max")
    if world.rank == 0:
        report(size, world.size, slowest.tolist())


def main() -> None:
    world = unisono.init()
    for size in sys.argv[2:]:
        measure(world, float(sys.argv[1]), int(size))


if __name__ == "__main__":
    main()

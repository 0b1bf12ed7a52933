"""unisono's all_reduce of a NumPy array, from Python.

usage: unisono run -n RANKS -- python unisono_numpy.py SECONDS BYTES...
"""

import sys

import numpy as np
import unisono
from timing import report, time_enough_calls


def measure(world: unisono.Group, budget: float, size: int) -> None:
    data = np.ones(size // 4, dtype=np.float32)

    def call() -> None:
        world.all_reduce(data)

    def agree(value: int) -> int:
        said = np.array([value])
        world.broadcast(said, 0)
        return int(said[0])

    slowest = np.array(time_enough_calls(call, world.barrier, agree, budget))
    world.all_reduce(slowest, op="max")
    if world.rank == 0:
        report(size, world.size, slowest.tolist())


def main() -> None:
    world = unisono.init()
    for size in sys.argv[2:]:
        measure(world, float(sys.argv[1]), int(size))


if __name__ == "__main__":
    main()

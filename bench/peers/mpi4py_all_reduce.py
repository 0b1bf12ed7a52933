"""Allreduce of a NumPy array of f32 through mpi4py.

usage: mpirun -np RANKS python mpi4py_all_reduce.py SECONDS BYTES...
"""

import sys

import numpy as np
from mpi4py import MPI
from timing import report, time_enough_calls


def measure(budget: float, size: int) -> None:
    world = MPI.COMM_WORLD
    data = np.ones(size // 4, dtype=np.float32)

    def call() -> None:
        world.Allreduce(MPI.IN_PLACE, data)

    slowest = np.array(time_enough_calls(call, world.Barrier, world.bcast, budget))
    world.Allreduce(MPI.IN_PLACE, slowest, op=MPI.MAX)
    if world.rank == 0:
        report(size, world.size, slowest.tolist())


def main() -> None:
    for size in sys.argv[2:]:
        measure(float(sys.argv[1]), int(size))


if __name__ == "__main__":
    main()

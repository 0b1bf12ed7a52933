"""What the ranks of a job have in shared memory: the most of any.

usage: unisono run -n RANKS -- python unisono_memory.py      prints a line of JSON on rank 0
"""

import json
import sys
from pathlib import Path

import numpy as np
import unisono

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "python"))

from harness import staging


def main() -> None:
    world = unisono.init()
    staging.talk(world)
    staging.reduce_a_mebibyte(world)
    world.barrier()
    before = staging.committed()
    second = world.split(0)
    staging.reduce_a_mebibyte(second)
    world.barrier()
    most = np.array([before, staging.committed() - before])
    world.all_reduce(most, op="max")
    if world.rank == 0:
        print(json.dumps({"ranks": world.size, "staging": int(most[0]), "second": int(most[1])}), flush=True)


if __name__ == "__main__":
    main()

"""torch.distributed.all_reduce of f32 through Gloo.

usage: gloo_all_reduce.py SECONDS BYTES...   with RANK, WORLD_SIZE and INIT_FILE in the environment
"""

import os
import sys

import torch
import torch.distributed as dist
from timing import report, time_enough_calls


def measure(budget: float, size: int) -> None:
    data = torch.ones(size // 4, dtype=torch.float32)

    def call() -> None:
        dist.all_reduce(data)

    def agree(value: int) -> int:
        said = torch.tensor([value])
        dist.broadcast(said, 0)
        return int(said)

    slowest = torch.tensor(time_enough_calls(call, dist.barrier, agree, budget), dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        report(size, dist.get_world_size(), slowest.tolist())


def main() -> None:
    torch.set_num_threads(1)  # a rank is a core; with more threads Gloo is slower here
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method="file://" + os.environ["INIT_FILE"], rank=rank, world_size=ranks)
    for size in sys.argv[2:]:
        measure(float(sys.argv[1]), int(size))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""A few all_reduces of two sizes, in the world and in a group of its own."""

import torch
import torch.distributed as dist

dist.init_process_group("unisono")
pair = dist.new_group([0, 1])
for _ in range(3):
    dist.all_reduce(torch.ones(4))
    dist.all_reduce(torch.ones(1 << 18, dtype=torch.bfloat16), group=pair, async_op=True).wait()
dist.destroy_process_group()

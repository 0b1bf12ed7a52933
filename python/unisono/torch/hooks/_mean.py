"""The mean over ranks: exact, and with 16 bits on the wire."""

# No `from __future__ import annotations` here: DDP compares a hook's annotations with the types themselves.

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future

from unisono.torch.hooks import _collectives as collectives
from unisono.torch.hooks._bucket import Bucket
from unisono.torch.hooks._collectives import Group
from unisono.torch.hooks._steps import StepContext, StepReducer


def _mean(buffer: torch.Tensor, group: Group) -> Future[torch.Tensor]:
    # Divide first, as DDP does without a hook: the sum of 16-bit gradients could overflow.
    return collectives.all_reduce(buffer.div_(dist.get_world_size(group)), group)


def _mean_in(dtype: torch.dtype, buffer: torch.Tensor, group: Group) -> Future[torch.Tensor]:
    # One pass: divided in the buffer's precision, rounded once. The sum of what was divided stays in range.
    sent = torch.empty_like(buffer, dtype=dtype)
    torch.div(buffer, dist.get_world_size(group), out=sent)
    return collectives.all_reduce(sent, group).then(lambda done: buffer.copy_(done.value()))


def all_reduce(state: Group, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average over ranks, as DDP does without a hook; `state` is the group, None the default one."""
    return _mean(bucket.buffer(), state)


def fp16_compress(state: Group, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average over ranks in float16: half the bytes, 11 bits of precision; gradients below 6e-8 become zero."""
    return _mean_in(torch.float16, bucket.buffer(), state)


def bf16_compress(state: Group, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average over ranks in bfloat16: half the bytes, the range of float32, 8 bits of precision; also on CPUs."""
    return _mean_in(torch.bfloat16, bucket.buffer(), state)


class Mean(StepReducer):
    """The mean over ranks."""

    of_sums = True

    def reduce(self, ctx: StepContext, bucket: Bucket) -> Future[torch.Tensor]:
        """Divide by the number of ranks and add up, in place."""
        return _mean(bucket.buffer, ctx.group)


class Half(StepReducer):
    """The mean over ranks with 16 bits on the wire: torch.float16, or torch.bfloat16 for gradients of any range."""

    of_sums = True

    def __init__(self, dtype: torch.dtype = torch.bfloat16) -> None:
        if dtype not in (torch.float16, torch.bfloat16):
            raise ValueError(f"Half sends torch.float16 or torch.bfloat16, not {dtype}")
        self.dtype = dtype

    def reduce(self, ctx: StepContext, bucket: Bucket) -> Future[torch.Tensor]:
        """Divide, round, add up, and widen again."""
        return _mean_in(self.dtype, bucket.buffer, ctx.group)

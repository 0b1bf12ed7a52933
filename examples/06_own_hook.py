"""Aggregate gradients in your own way: the median over ranks instead of the mean, in a few lines.

A reducer gets the gradients of a model in buckets and returns a future of what all ranks shall use. This one gathers
every rank's gradient and takes the median of each entry, which one rank with broken data cannot pull away.
Needs torch (pip install torch==2.13.0); docs/hooks.md tells more.

unisono run -n 4 -- python examples/06_own_hook.py
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread a rank: torch's own would compete for the cores

import torch
import torch.distributed as dist
import unisono.torch  # noqa: F401 - makes the name "unisono" known to torch
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel
from unisono.torch.hooks import Bucket, Mean, StepContext, StepReducer, register


class Median(StepReducer):
    """The median over ranks, entry by entry."""

    def reduce(self, ctx: StepContext, bucket: Bucket) -> Future[torch.Tensor]:
        """Gather all ranks' buckets; the median is computed when they are there."""
        everyone = bucket.buffer.new_empty(ctx.size, bucket.buffer.numel())
        work = dist.all_gather_single(everyone.view(-1), bucket.buffer, group=ctx.group, async_op=True)

        def median(done: Future[list[torch.Tensor]]) -> torch.Tensor:
            done.value()  # raises what the operation raised
            return everyone.median(dim=0).values

        future: Future[torch.Tensor] = work.get_future().then(median)
        return future


def train(reducer: StepReducer) -> float:
    """Fit y = 3x - 1; the labels of the last of several ranks are broken. The distance from the right answer."""
    torch.manual_seed(dist.get_rank())
    x = torch.randn(256, 1)
    y = 3 * x - 1
    if dist.get_rank() == dist.get_world_size() - 1 > 0:
        y *= -20
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    register(model, reducer)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        torch.autograd.backward(torch.nn.functional.mse_loss(model(x), y))
        optimizer.step()
    slope, offset = (float(parameter.detach()) for parameter in model.parameters())
    return abs(slope - 3) + abs(offset + 1)


dist.init_process_group("unisono")
mean, median = train(Mean()), train(Median())
if dist.get_world_size() >= 3:
    assert median < 0.5 < mean, f"median {median}, mean {mean}"
if dist.get_rank() == 0:
    print(f"distance from the right answer, with broken labels on one rank: mean {mean:.2f}, median {median:.2f}")
dist.destroy_process_group()

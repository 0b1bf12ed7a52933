"""ZeroRedundancyOptimizer; each function runs on all ranks of a group.

Its modules compile some TorchScript, with a warning, when they are imported: so the ranks do it, and not the tests.
"""

# torch.distributed exports less to mypy than to its users.
# mypy: disable-error-code="attr-defined,no-untyped-call,union-attr,arg-type"

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from backend_pair import Array, flat
from fsdp_cases import STEPS, loss_of, network
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel


def zero(as_view: bool) -> Array:
    """Adam, whose state is in shards; then a new optimizer goes on from the consolidated state."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    rank = dist.get_rank()
    model = DistributedDataParallel(network())

    def made() -> Any:
        return ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, parameters_as_bucket_view=as_view, lr=0.01)

    steps = made()
    for step in range(STEPS):
        model.zero_grad()
        torch.autograd.backward(loss_of(model, rank, step))
        steps.step()
        if step == 0:
            steps.consolidate_state_dict(to=0)
            state = [steps.state_dict() if rank == 0 else None]
            dist.broadcast_object_list(state, src=0)
            steps = made()
            steps.load_state_dict(state[0])
    return flat(model.parameters())


def zero_in_the_hook(shard_buckets: bool) -> Array:
    """The optimizer's step overlaps DDP's backward pass: by hooks, of which torch lets Gloo have none."""
    from torch.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook import hook_with_zero_step
    from torch.distributed.optim import ZeroRedundancyOptimizer

    rank = dist.get_rank()
    model = DistributedDataParallel(network(), gradient_as_bucket_view=True, bucket_cap_mb=0.0004)
    steps = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.SGD, overlap_with_ddp=True, lr=0.05, momentum=0.9, foreach=False
    )
    hook = hook_with_zero_step(allreduce_hook, model, steps, shard_buckets=shard_buckets)
    model.register_comm_hook(None, hook)
    for step in range(6):
        model.zero_grad()
        # The first passes, in which buckets are settled, change no parameters.
        torch.autograd.backward(loss_of(model, rank, step))
        steps.step()
    return flat(model.parameters())


def without_a_hook(warm_up: int) -> Array:
    """What zero_in_the_hook computes, by DDP alone: the first passes change nothing."""
    model = DistributedDataParallel(network())
    steps = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, foreach=False)
    for step in range(6):
        model.zero_grad()
        torch.autograd.backward(loss_of(model, dist.get_rank(), step))
        if step >= warm_up:
            steps.step()
    return flat(model.parameters())

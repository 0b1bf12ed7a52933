"""The collectives that hooks use, as futures of their result.

A future of c10d holds whatever the back end puts there; these hold the tensor. What is chained to them computes and
copies, and never starts a collective: it runs on whichever thread completes the operation, so that two ranks would
start theirs in different orders.
"""

from typing import TypeAlias

import torch
import torch.distributed as dist
from torch.futures import Future

Group: TypeAlias = dist.ProcessGroup | None
"""None is the default group."""


def _future(work: dist.Work | None, result: torch.Tensor) -> Future[torch.Tensor]:
    if work is None:
        raise RuntimeError("this process is not a member of the hook's group: give the hook the model's group")

    def take(done: Future[list[torch.Tensor]]) -> torch.Tensor:
        done.value()  # raises what the operation raised
        return result

    return work.get_future().then(take)


def all_reduce(tensor: torch.Tensor, group: Group) -> Future[torch.Tensor]:
    """Add up over ranks, in place."""
    return _future(dist.all_reduce(tensor, group=group, async_op=True), tensor)


def all_gather(tensor: torch.Tensor, group: Group) -> Future[torch.Tensor]:
    """Every rank's flat tensor, all of one length: a tensor of shape (ranks, length)."""
    size = dist.get_world_size(group)
    gathered = tensor.new_empty(size * tensor.numel())
    # The name before torch 2.13.
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    work = gather(gathered, tensor, group=group, async_op=True)
    return _future(work, gathered.view(size, tensor.numel()))

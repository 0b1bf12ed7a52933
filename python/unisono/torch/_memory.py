"""Tensors in shared memory, whose collectives copy nothing."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from unisono.torch import _load

DDP_SWITCH = "DDP_DISABLE_COMM_MEM"
"""Torch's own: with "0" DDP asks its back end for the memory of its buckets. Torch's default is "1"."""


def let_ddp_ask() -> None:
    """Have DDP ask for its buckets' memory, unless the user decided it (in the environment: torch has no other way).

    Not where there are GPUs: NCCL would be asked, too, and that is not ours to decide.
    """
    if DDP_SWITCH not in os.environ and not torch.cuda.is_available():
        os.environ[DDP_SWITCH] = "0"
        logging.getLogger(__name__).info("%s=0: DDP puts its buckets into memory that ranks share", DDP_SWITCH)


def _backend_of(group: dist.ProcessGroup | None) -> Any:
    """The back end that moves the group's CPU tensors; TORCH_DISTRIBUTED_DEBUG=DETAIL wraps another one around it."""
    chosen: Any = dist.distributed_c10d._group_or_default_group(group)
    found = chosen._get_backend(torch.device("cpu"))
    found = getattr(found, "wrapped_pg", found)
    if not isinstance(found, _load.backend().Backend):
        raise TypeError(
            "shared_allocator() needs a process group of the back end unisono; CPU tensors of this one go by "
            f'{found.name()}: init_process_group("unisono")'
        )
    return found


@contextmanager
def shared_allocator(group: dist.ProcessGroup | None = None, *, min_bytes: int = 16 << 10) -> Iterator[None]:
    """Have what is allocated inside lie in memory that the other ranks on this host reach: collectives copy nothing.

        with unisono.torch.shared_allocator():
            flat = torch.zeros(10_000_000)
        dist.all_reduce(flat)

    Inside, every CPU allocation of this thread of at least `min_bytes` bytes is shared memory: tensors that are made
    there stay in it, whatever is done with them later. They may outlive the group; their memory is used again when they
    are freed. A collective copies nothing when the tensors of all its ranks lie there; others work as ever, so ranks
    need not agree.

    DDP needs none of this: it asks its group for the memory of its buckets, also when it makes them anew after the
    first iteration. The first group of this back end sets DDP_DISABLE_COMM_MEM=0 for that in the environment of its
    process, unless it is set or there are GPUs (where you set it); 1 means ordinary buckets. FSDP2 asks after
    `model.set_allocate_memory_from_process_group_for_comm(True)`.

    group: the default group when None; its world is the one that shares. Where ranks do not share memory
    (UNISONO_TRANSPORT=tcp) it is ordinary memory. Raises TypeError for a group of another back end, ValueError without
    a group, torch.OutOfMemoryError (of an allocation inside) when the machine's memory is full.
    """
    scope = _load.backend().AllocationScope(_backend_of(group), min_bytes)
    scope.open()
    try:
        yield
    finally:
        scope.close()


def is_shared(tensor: torch.Tensor) -> bool:
    """Whether the other ranks on this host reach the tensor's memory."""
    return bool(_load.backend().is_shared(tensor))

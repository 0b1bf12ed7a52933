"""Makes torch know the name "unisono". Torch imports this at the end of its own import (entry point torch.backends).

So it must cost next to nothing and never fail: what is heavy is imported when the first group is made. It lies outside
the package unisono, whose import loads NumPy and the library.
"""

from __future__ import annotations

from typing import Any

NAME = "unisono"


def register() -> None:
    """Register the back end, once. Without torch.distributed there is nothing to do."""
    import torch.distributed

    if not torch.distributed.is_available() or NAME in torch.distributed.Backend.backend_list:
        return
    torch.distributed.Backend.register_backend(NAME, create, extended_api=True, devices=["cpu"])
    # Torch 2.15 records the operations of back ends that keep no record of their own: each then
    # takes several times as long, and a group in Python cannot be made. The compiled one keeps its
    # own record, at next to no cost.
    recording: set[str] = getattr(torch.distributed.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", set())
    recording.add(NAME)


def create(details: Any, options: Any) -> Any:
    """Make the back end of one process group. Called by torch, on the group's members."""
    from unisono.torch._create import create_backend

    return create_backend(details, options)

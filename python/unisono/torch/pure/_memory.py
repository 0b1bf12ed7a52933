"""Shared memory, as far as Python reaches it."""

from __future__ import annotations

from typing import Any

import torch

from unisono.torch import _create


class AllocationScope:
    """Torch takes an allocator from C++ alone, so memory that is allocated inside is ordinary memory here."""

    def __init__(self, backend: Any, least: int) -> None:
        """As the compiled one, which directs allocations of at least `least` bytes."""

    def open(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


def is_shared(tensor: torch.Tensor) -> bool:
    """Whether the other ranks of any group on this host reach the tensor's memory."""
    dense = tensor.device.type == "cpu" and tensor.layout == torch.strided and tensor.is_contiguous()
    there = dense and tensor.nbytes <= tensor.untyped_storage().nbytes()  # or its storage was resized
    return there and any(group.shares(tensor) for group in _create.worlds().groups())

"""The PyTorch back end: `init_process_group("unisono")`.

    import torch.distributed as dist
    import unisono.torch            # not needed where torch finds the package by itself

    dist.init_process_group("unisono")

It carries CPU tensors; with GPUs: `init_process_group("cpu:unisono,cuda:nccl")`. Everything that works with "gloo"
works with "unisono". The C++ part is compiled when it is first used, if it was not when the package was installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import unisono_torch_entry

from unisono.torch._barrier import monitored_barrier
from unisono.torch._memory import is_shared, shared_allocator
from unisono.torch._record import dump_flight_record, flight_record

if TYPE_CHECKING:
    from unisono.torch._backend import Backend, Options

__all__ = [
    "Backend",
    "Options",
    "dump_flight_record",
    "flight_record",
    "is_shared",
    "monitored_barrier",
    "shared_allocator",
]

unisono_torch_entry.register()


def __getattr__(name: str) -> Any:
    """Load the C++ part when it is first asked for."""
    if name in ("Backend", "Options"):
        from unisono.torch._load import backend

        return getattr(backend(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

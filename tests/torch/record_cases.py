"""What ranks do in test_flight_record.py."""

# torch.distributed exports less to mypy than to its users.
# mypy: disable-error-code="attr-defined,no-untyped-call,union-attr,arg-type"

from __future__ import annotations

import contextlib
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import unisono.torch


def _join(rank: int, size: int, folder: str) -> None:
    dist.init_process_group(
        "unisono", init_method=f"file://{folder}/meet", rank=rank, world_size=size, timeout=timedelta(seconds=30)
    )


def recorded(rank: int, size: int, folder: str) -> dict[str, Any]:
    _join(rank, size, folder)
    x = torch.ones(2, 3)
    dist.all_reduce(x)
    dist.broadcast(x.to(torch.bfloat16), 0, async_op=True).wait()
    if rank == 0:
        dist.send(x, 1)
    elif rank == 1:
        dist.recv(x, 0)
    pair = dist.new_group([0, 1])
    if rank < 2:
        with contextlib.suppress(dist.DistBackendError):
            if rank == 0:
                dist.barrier(group=pair, timeout=timedelta(seconds=0.3))
    record = unisono.torch.flight_record()
    unisono.torch.dump_flight_record(Path(folder) / "dump_")
    dist.destroy_process_group()
    return record


def lost(rank: int, size: int, folder: str) -> None:
    """Rank 1 does something else: an analysis of the records must find it."""
    _join(rank, size, folder)
    for _ in range(3):
        dist.all_reduce(torch.ones(10))
    with contextlib.suppress(dist.DistBackendError):
        if rank == 1:
            dist.broadcast(torch.ones(4), 0)
        else:
            dist.all_reduce(torch.ones(10))
    unisono.torch.dump_flight_record(Path(folder) / "dump_")

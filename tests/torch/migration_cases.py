"""What docs/migration.md says, as functions that run on each rank of a group; `refused` returns an exception's text."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def refused(call: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    try:
        call(*arguments, **options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def reduce_leaves_inputs() -> list[float]:
    x = torch.full((1000,), dist.get_rank() + 1.0)
    dist.reduce(x, dst=0)
    return [float(x.min()), float(x.max())]


def average() -> list[float]:
    x = torch.full((5,), float(dist.get_rank()), dtype=torch.bfloat16)
    dist.all_reduce(x, op=dist.ReduceOp.AVG)
    return [float(v) for v in x]


def small_integers() -> list[int]:
    x = torch.full((3,), dist.get_rank() + 1, dtype=torch.int16)
    dist.all_reduce(x)
    return [int(v) for v in x]


def strided() -> bool:
    """A broadcast into every second column."""
    whole = torch.zeros(4, 6)
    part = whole[:, ::2]
    if dist.get_rank() == 0:
        part.copy_(torch.arange(12.0).view(4, 3))
    dist.broadcast(part, src=0)
    return bool((part == torch.arange(12.0).view(4, 3)).all() and not whole[:, 1::2].any())


def uneven_all_gather() -> list[int]:
    parts = [torch.zeros(rank + 1) for rank in range(dist.get_world_size())]
    dist.all_gather(parts, torch.full((dist.get_rank() + 1,), dist.get_rank() + 1.0))
    return [int(part.sum()) for part in parts]


def reduce_scatter_has_a_future() -> list[float]:
    size = dist.get_world_size()
    out = torch.zeros(2)
    work = dist.reduce_scatter_single(out, torch.arange(2.0 * size), async_op=True)
    work.get_future().wait()
    assert work.is_completed()
    return [float(v) for v in out]


def members_only() -> int:
    """A group that its members make by themselves, and one that everybody makes after it."""
    if dist.get_rank() < 2:
        group = dist.new_group([0, 1], use_local_synchronization=True)
        x = torch.ones(1)
        dist.all_reduce(x, group=group)
        assert float(x) == 2
    y = torch.ones(1)
    dist.all_reduce(y, group=dist.new_group())
    return int(y)


def mismatch() -> str:
    """Ranks call all_reduce with different numbers of elements."""
    return refused(dist.all_reduce, torch.ones(10 + dist.get_rank()))


def names() -> dict[str, Any]:
    group: Any = dist.group.WORLD
    model: Any = DistributedDataParallel(torch.nn.Linear(2, 2))
    return {
        "get_backend": dist.get_backend(),
        "name": group.name(),
        "logged": model._get_ddp_logging_data().get("backend_name", ""),
        "monitored_barrier": refused(dist.monitored_barrier),
        "sequence": refused(group._get_sequence_number_for_group),
        "recorded_by_torch": len(getattr(dist.distributed_c10d._world, "pg_flight_recorder_hooks", [])),
        "split_group": refused(dist.split_group, split_ranks=[list(range(dist.get_world_size()))]),
    }


def barriers() -> str:
    import unisono.torch

    return refused(unisono.torch.monitored_barrier)


def average_of_integers() -> tuple[str, list[int]]:
    x = torch.tensor([3, -3, 1]) * (dist.get_rank() + 1)
    return refused(dist.all_reduce, x, op=dist.ReduceOp.AVG), x.tolist()


def transport() -> str:
    group: Any = dist.group.WORLD
    return str(group._get_backend(torch.device("cpu")).transport)


def death() -> None:
    """The last rank dies; the others are in an all_reduce."""
    if dist.get_rank() == dist.get_world_size() - 1:
        os._exit(3)
    dist.all_reduce(torch.ones(1000))

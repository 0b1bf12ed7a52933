"""Rank 0 makes children with os.fork(), which end as sys.argv[1:] say, one by one. The parent's groups go on."""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

import torch
import torch.distributed as dist

dist.init_process_group("unisono")
rank, size = dist.get_rank(), dist.get_world_size()
x = torch.ones(300_000)


def child(how: str, held: list[Any]) -> NoReturn:
    """What a child does with what is its parent's: a group, and an operation under way."""
    if how == "raise":
        raise ValueError("the child's own trouble")
    if how == "destroy":
        dist.destroy_process_group(held[0])
        dist.destroy_process_group()
    if how == "drop":
        held.clear()
    if how == "use":
        assert dist.is_initialized()
        assert (dist.get_rank(), dist.get_world_size()) == (rank, size)
        for call in (lambda: dist.all_reduce(x), lambda: dist.send(x, 1), held[1].wait, dist.barrier):
            try:
                call()
            except RuntimeError as error:
                assert "forked child" in str(error), error
            else:
                raise AssertionError("it was not refused")
    sys.exit(3)  # runs what atexit has


def parent(how: str) -> None:
    """Make that child while a collective is under way, then use both groups."""
    other = dist.new_group()
    strided = torch.ones(2_000_000).view(1000, 2000).t() * (rank + 1)
    pending = dist.all_reduce(strided, async_op=True) if rank == 0 else None
    made = os.fork() if rank == 0 else -1
    if made == 0:
        held = [other, pending]
        del other, pending
        child(how, held)
    if made > 0:
        ended = os.waitstatus_to_exitcode(os.waitpid(made, 0)[1])
        assert ended == (1 if how == "raise" else 3), (how, ended)
    (pending if pending is not None else dist.all_reduce(strided, async_op=True)).wait()
    assert (strided == size * (size + 1) / 2).all()
    for group in (None, other):
        x.fill_(rank + 1)
        dist.all_reduce(x, group=group)
        assert (x == size * (size + 1) / 2).all()
    print("lives", flush=True)


for how in sys.argv[1:]:
    parent(how)
dist.destroy_process_group()

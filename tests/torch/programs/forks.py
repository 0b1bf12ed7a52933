"""Rank 0 makes a child with os.fork(), which ends as sys.argv[1] says. The parent's group goes on."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist

how = sys.argv[1]
dist.init_process_group("unisono")
rank, size = dist.get_rank(), dist.get_world_size()
other = dist.new_group()
x = torch.ones(300_000)
strided = torch.ones(2_000_000).view(1000, 2000).t() * (rank + 1)
pending = dist.all_reduce(strided, async_op=True) if rank == 0 else None
child = os.fork() if rank == 0 else -1
if child == 0:
    if how == "raise":
        raise ValueError("the child's own trouble")
    if how == "destroy":
        dist.destroy_process_group(other)
        dist.destroy_process_group()
    if how == "drop":
        del pending, other
    if how == "use":
        assert dist.is_initialized()
        assert pending is not None
        assert (dist.get_rank(), dist.get_world_size()) == (rank, size)
        for call in (lambda: dist.all_reduce(x), lambda: dist.send(x, 1), pending.wait, dist.barrier):
            try:
                call()
            except RuntimeError as error:
                assert "forked child" in str(error), error
            else:
                raise AssertionError("it was not refused")
    sys.exit(3)  # runs what atexit has
if child > 0:
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended == (1 if how == "raise" else 3), ended
(pending if pending is not None else dist.all_reduce(strided, async_op=True)).wait()
assert (strided == size * (size + 1) / 2).all()
for group in (None, other):
    x.fill_(rank + 1)
    dist.all_reduce(x, group=group)
    assert (x == size * (size + 1) / 2).all()
print("lives", flush=True)
dist.destroy_process_group()

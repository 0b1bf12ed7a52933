"""What a rank does whose program changes memory of operations in flight."""

# torch.distributed exports less to mypy than to its users.
# mypy: disable-error-code="attr-defined,no-untyped-call,union-attr,arg-type"

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


def _ends(work: Any) -> str:
    try:
        work.wait()
    except (ValueError, RuntimeError) as error:
        return str(error)
    return ""


def changes(rank: int, size: int, folder: str) -> list[str]:
    """What each call said. The gathers have not ended when their input changes: lists are taken apart at the end."""
    dist.init_process_group("unisono", rank=rank, world_size=size, init_method=f"file://{folder}/store")
    said = []
    for count in (4, 100_000):
        t = torch.ones(count)
        work = dist.all_reduce(t, async_op=True)
        if rank == 0:
            t.add_(1)
        said.append(_ends(work))
        # The results land in a list: the input is the program's own.
        parts = [torch.zeros(count) for _ in range(size)]
        t = torch.full((count,), float(rank))
        go = torch.zeros(1)
        if rank == 1:
            dist.recv(go, 0)
        work = dist.all_gather(parts, t, async_op=True)
        if rank == 0:
            t[1] = 7
            dist.send(go, 1)
        said.append(_ends(work))
        assert [part[1].item() for part in parts] == list(range(size)) or rank == 0
        t = torch.ones(count)
        if rank == 0:
            work = dist.isend(t, 1)
            t.zero_()
            said.append(_ends(work))
        else:
            dist.recv(t, 0)
            assert t.sum() == count
            said.append("")
    t, u = torch.ones(10), torch.ones(20)
    work = dist.all_reduce(t, async_op=True)
    try:
        dist.broadcast(t, 0, async_op=True)
    except (ValueError, RuntimeError) as error:
        said.append(str(error))
    work.wait()
    # A future tells of the end; so does a barrier who has dropped the work.
    work = dist.all_reduce(t, async_op=True)
    work.get_future().wait()
    t.add_(1)
    dist.all_reduce(t)
    dist.all_reduce(u, async_op=True)
    dist.barrier()
    u.add_(1)
    dist.all_reduce(u)
    work.wait()
    assert t[0] == (size * size + 1) * size and u[0] == (size + 1) * size
    dist.destroy_process_group()
    return said

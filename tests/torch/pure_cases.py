"""What ranks do in test_pure.py."""

# torch.distributed exports less to mypy than to its users.
# mypy: disable-error-code="attr-defined,no-untyped-call"

from __future__ import annotations

import os

import torch
import torch.distributed as dist


def kind() -> str:
    return type(dist.distributed_c10d._get_default_group()).__name__


def functional() -> None:
    """Torch's C++ calls the group's methods here."""
    import torch.distributed._functional_collectives as funcol

    n, world = dist.get_world_size(), dist.group.WORLD
    assert torch.equal(funcol.all_reduce(torch.ones(4), "sum", world), torch.full((4,), float(n)))
    assert torch.equal(funcol.all_gather_tensor(torch.ones(2), 0, world), torch.ones(2 * n))
    assert torch.equal(funcol.reduce_scatter_tensor(torch.ones(2 * n), "sum", 0, world), torch.full((2,), float(n)))
    assert torch.equal(funcol.all_to_all_single(torch.ones(n), None, None, world), torch.ones(n))
    assert torch.equal(funcol.broadcast(torch.full((2,), float(dist.get_rank())), 1, world), torch.ones(2))
    several = funcol.all_gather_into_tensor_coalesced([torch.ones(2), torch.zeros(3)], world)
    assert [t.numel() for t in several] == [2 * n, 3 * n]


def what_it_has_not() -> None:
    """Is refused with a sentence, or does the same with ordinary memory."""
    import unisono.torch

    with unisono.torch.shared_allocator():
        t = torch.ones(100_000)
    dist.all_reduce(t)
    assert t[0] == dist.get_world_size() and isinstance(unisono.torch.is_shared(t), bool)
    unisono.torch.monitored_barrier()
    try:
        unisono.torch.flight_record()
    except NotImplementedError as error:
        assert "unisono.torch._build" in str(error)
    else:
        raise AssertionError("there is no flight record in Python")


def mixed(rank: int, size: int, folder: str) -> float:
    """Rank 1 has no compiler."""
    os.environ["UNISONO_TORCH_BACKEND"] = "python" if rank == 1 else "compiled"
    dist.init_process_group("unisono", init_method=f"file://{folder}/meet", rank=rank, world_size=size)
    assert (kind() == "PythonGroup") == (rank == 1)
    x = torch.full((1000,), rank + 1.0)
    dist.all_reduce(x)
    parts = [torch.zeros(3) for _ in range(size)]
    dist.all_gather(parts, torch.full((3,), rank + 1.0))
    assert [float(p[0]) for p in parts] == [r + 1.0 for r in range(size)]
    lists = [None] * size
    dist.all_gather_object(lists, {"rank": rank})
    assert lists == [{"rank": r} for r in range(size)]
    part = dist.new_group([0, 1])
    if rank < 2:
        dist.barrier(part)
    if rank == 0:
        dist.send(torch.ones(4), 1, tag=7)
    if rank == 1:
        dist.recv(parts[0].new_empty(4), 0, tag=7)
    dist.destroy_process_group()
    return float(x[0])

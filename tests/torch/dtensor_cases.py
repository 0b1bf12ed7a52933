"""DTensor, meshes, functional and differentiable collectives, objects; each function runs on all ranks of a group."""

# torch.distributed exports less to mypy than to its users.
# mypy: disable-error-code="attr-defined,no-untyped-call,union-attr,arg-type,operator"

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.distributed.nn.functional as dnn
from backend_pair import Array, flat
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

PLACEMENTS = {"S0": Shard(0), "S1": Shard(1), "R": Replicate(), "P": Partial(), "Pavg": Partial("avg")}


def matrix(rows: int = 8, columns: int = 12) -> torch.Tensor:
    return torch.arange(rows * columns, dtype=torch.float32).view(rows, columns) / 7


def redistributed(start: str, end: str, rows: int, columns: int) -> tuple[Array, Array]:
    """This rank's shard after the change, and the whole. A partial start has rank + 1 times the matrix on each rank."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    if start.startswith("P"):
        local = matrix(rows, columns) * (dist.get_rank() + 1)
        x = DTensor.from_local(local, mesh, [PLACEMENTS[start]])
    else:
        x = distribute_tensor(matrix(rows, columns), mesh, [PLACEMENTS[start]])
    y = x.redistribute(mesh, [PLACEMENTS[end]])
    return flat([y.to_local()]), flat([y.full_tensor()])


def product() -> Array:
    """A matrix product along the shards, whose result is partial; and its gradient."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    a = distribute_tensor(matrix(), mesh, [Shard(1)]).requires_grad_()
    b = distribute_tensor(matrix(12, 5), mesh, [Shard(0)]).requires_grad_()
    y = (a @ b).redistribute(placements=[Replicate()])
    torch.autograd.backward(y.to_local().square().sum() / 1000)
    assert a.grad is not None and b.grad is not None
    return flat([y.to_local(), a.grad.full_tensor(), b.grad.full_tensor()])


def product_alone() -> Array:
    a, b = matrix().requires_grad_(), matrix(12, 5).requires_grad_()
    y = a @ b
    torch.autograd.backward(y.square().sum() / 1000)
    assert a.grad is not None and b.grad is not None
    return flat([y, a.grad, b.grad])


def made_in_parallel() -> Array:
    """Tensor parallelism: columns, then rows."""
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 6))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    out = model(matrix())
    torch.autograd.backward(out.square().sum() / 1000)
    return flat([out, *(p.grad.full_tensor() for p in model.parameters())])


def made_alone() -> Array:
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 6))
    out = model(matrix())
    torch.autograd.backward(out.square().sum() / 1000)
    return flat([out, *(p.grad for p in model.parameters() if p.grad is not None)])


def plane() -> tuple[Array, Array, list[int], list[str]]:
    """A mesh of two dimensions: shards along both, a reduction along one of them, groups of rows and columns."""
    size = dist.get_world_size()
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("rows", "columns"))
    x = distribute_tensor(matrix(), mesh, [Shard(0), Shard(1)])
    y = x.redistribute(placements=[Shard(1), Replicate()])
    z = torch.full((3,), dist.get_rank() + 1.0)
    dist.all_reduce(z, group=mesh.get_group("rows"))
    ranks = dist.get_process_group_ranks(mesh.get_group("columns"))
    backends = [str(dist.get_backend(mesh.get_group(name))) for name in ("rows", "columns")]
    return flat([y.to_local(), y.full_tensor()]), flat([z]), ranks, backends


def functional() -> Array:
    rank, n = dist.get_rank(), dist.get_world_size()
    group = dist.group.WORLD
    x = matrix() * (rank + 1)
    waiting: Any = funcol.all_reduce(x, "sum", group)
    results = [waiting + 1]  # used without wait(): the wrapper waits
    results.append(funcol.wait_tensor(funcol.all_reduce(x, "max", group)))
    results.append(funcol.all_gather_single(x, 1, group))
    results.append(funcol.reduce_scatter_single(x, "avg", 0, group))
    results += list(funcol.all_reduce_coalesced([x, x[0]], "sum", group))
    results += list(funcol.all_gather_single_coalesced([x, x[:, :1].contiguous()], group))
    results += list(funcol.reduce_scatter_single_coalesced([x, x * 2], "sum", [0, 0], group))
    results.append(funcol.broadcast(x, n - 1, group))
    size = [[a + b + 1 for b in range(n)] for a in range(n)]
    rows = torch.full((sum(size[rank]), 2), float(rank))
    to_me = [size[r][rank] for r in range(n)]
    results.append(funcol.all_to_all_single(rows, to_me, size[rank], group))
    results.append(funcol.permute_tensor(x.reshape(-1), [(r + 1) % n for r in range(n)], group))
    return flat(results)


def functional_with_gradients() -> Array:
    n, group = dist.get_world_size(), dist.group.WORLD
    x = (matrix() * (dist.get_rank() + 1)).requires_grad_()
    y = funcol.all_gather_single_autograd(x, 0, group)
    z = funcol.reduce_scatter_single_autograd(y * y, "sum", 0, group)
    w = funcol.all_to_all_single_autograd(z, [8 // n] * n, [8 // n] * n, group)
    torch.autograd.backward((w * w).sum() / 1e5)
    assert x.grad is not None
    return flat([w, x.grad])


def differentiable() -> Array:
    """torch.distributed.nn: outputs, and gradients of what went in. Its default group is that of its first import."""
    rank, n, group = dist.get_rank(), dist.get_world_size(), dist.group.WORLD
    results = []

    def done(x: torch.Tensor, outputs: Any, keep: bool = True) -> None:
        parts = list(outputs) if isinstance(outputs, tuple | list) else [outputs]
        weights = [(i + 1.0) * (rank + 1) for i in range(len(parts))]
        total = torch.stack([w * p.square().sum() for w, p in zip(weights, parts, strict=True)]).sum()
        torch.autograd.backward(total)
        assert x.grad is not None
        results.extend([*parts, x.grad] if keep else [x.grad])

    def fresh() -> torch.Tensor:
        return ((matrix(4, 3) + rank) / 10).requires_grad_()

    x = fresh()
    done(x, dnn.all_reduce(x * 1, group=group))
    x = fresh()
    done(x, dnn.all_gather(x, group=group))
    x = fresh()
    done(x, dnn.broadcast(x * 1, n - 1, group=group))
    x = fresh()
    done(x, dnn.reduce(x * 1, 0, group=group), keep=rank == 0)  # elsewhere Gloo leaves partial sums
    x = fresh()
    done(x, dnn.reduce_scatter(torch.zeros(4 // n, 3), list(x.split(4 // n)), group=group))
    x = fresh()
    done(x, dnn.all_to_all([torch.zeros(4 // n, 3) for _ in range(n)], list(x.split(4 // n)), group=group))
    x = fresh()
    done(x, dnn.all_to_all_single(torch.zeros(4, 3), x, group=group))
    x = fresh()
    done(x, dnn.gather(x, 1, group=group))
    x = fresh()
    done(x, dnn.scatter([x * (r + 1) for r in range(n)], 0, group=group))
    return flat(results)


def objects() -> list[Any]:
    rank, n = dist.get_rank(), dist.get_world_size()
    mine = {"rank": rank, "text": "x" * (1000 * rank), "list": [1.5, None]}
    everybody: list[Any] = [None] * n
    dist.all_gather_object(everybody, mine)
    from_last: list[Any] = [mine, rank]
    dist.broadcast_object_list(from_last, src=n - 1)
    at_one: list[Any] | None = [None] * n if rank == 1 else None
    dist.gather_object(mine, at_one, dst=1)
    share: list[Any] = [None]
    dist.scatter_object_list(share, [{"for": r} for r in range(n)] if rank == 0 else None, src=0)
    message: list[Any] = [None, None]
    if rank == 0:
        dist.send_object_list(["one", {2: 3}], dst=1)
    elif rank == 1:
        dist.recv_object_list(message, src=0)
    return [everybody, from_last, at_one, share, message]

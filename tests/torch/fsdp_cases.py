"""Training with parameters in shards, by FSDP2 and FSDP1; each function runs on all ranks of a group."""

# torch.distributed exports less to mypy than to its users.
# mypy: disable-error-code="attr-defined,no-untyped-call,union-attr,arg-type"

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from backend_pair import Array, flat
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, ShardingStrategy, fully_shard

INPUTS, STEPS = 6, 3


def network() -> Any:
    """13 rows and 7: no number of ranks divides them."""
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(INPUTS, 13), nn.Tanh(), nn.Sequential(nn.Linear(13, 7), nn.Tanh()), nn.Linear(7, 3, bias=False)
    )


def batch(rank: int, step: int) -> torch.Tensor:
    return torch.randn(4, INPUTS, generator=torch.Generator().manual_seed(100 * step + rank))


def loss_of(model: nn.Module, rank: int, step: int) -> torch.Tensor:
    loss: torch.Tensor = model(batch(rank, step)).float().square().mean()
    return loss


def alone(size: int, factor: float | None = None, optimizer: str = "Adam") -> Array:
    """One process: gradients are the ranks' sum over `factor`, or their mean."""
    model = network()
    steps = getattr(torch.optim, optimizer)(model.parameters(), lr=0.01)
    for step in range(STEPS):
        model.zero_grad()
        losses = [loss_of(model, rank, step) for rank in range(size)]
        torch.autograd.backward(torch.stack(losses).sum() / (factor or size))
        steps.step()
    return flat(model.parameters())


def sharded(
    reduce_dtype: str = "",
    param_dtype: str = "",
    factor: float | None = None,
    reshard_after_forward: bool = True,
    replicas: int = 1,
    clip: float | None = None,
    optimizer: str = "Adam",
) -> Array:
    """FSDP2. replicas: of how many copies the shards are (2: HSDP, on a mesh of two dimensions)."""
    rank, size = dist.get_rank(), dist.get_world_size()
    shape, names = ((replicas, size // replicas), ("replica", "shard")) if replicas > 1 else ((size,), ("shard",))
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
    policy = MixedPrecisionPolicy(
        param_dtype=getattr(torch, param_dtype) if param_dtype else None,
        reduce_dtype=getattr(torch, reduce_dtype) if reduce_dtype else None,
    )
    options: dict[str, Any] = {"mesh": mesh, "mp_policy": policy, "reshard_after_forward": reshard_after_forward}
    model = network()
    fully_shard(model[2], **options)
    fully_shard(model, **options)
    if factor is not None:
        for part in (model, model[2]):
            part.set_gradient_divide_factor(factor)
    steps = getattr(torch.optim, optimizer)(model.parameters(), lr=0.01)
    for step in range(STEPS):
        model.zero_grad()
        torch.autograd.backward(loss_of(model, rank, step))
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        steps.step()
    full: dict[str, Any] = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    return flat(full.values())


def accumulated() -> Array:
    """Two passes, of which only the second one communicates."""
    model = network()
    fully_shard(model[2])
    fully_shard(model)
    for step in range(2):
        model.set_requires_gradient_sync(step == 1)
        torch.autograd.backward(loss_of(model, dist.get_rank(), step))
    return flat(p.grad.full_tensor() for p in model.parameters())


def first_generation(strategy: str) -> Array:
    """FSDP1 on CPU."""
    device = torch.device("cpu")
    model = FullyShardedDataParallel(
        network(), sharding_strategy=ShardingStrategy[strategy], device_id=device, use_orig_params=True
    )
    steps = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(STEPS):
        model.zero_grad()
        torch.autograd.backward(loss_of(model, dist.get_rank(), step))
        steps.step()
    with FullyShardedDataParallel.summon_full_params(model):
        return flat(p.clone() for p in model.parameters())

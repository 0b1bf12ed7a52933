"""torch.distributed.checkpoint: saved on one layout, loaded on another; each function runs on all ranks of a group."""

# torch.distributed exports less to mypy than to its users.
# mypy: disable-error-code="attr-defined,no-untyped-call,union-attr,arg-type"

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from backend_pair import Array, flat
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

PLACEMENTS = {"S0": Shard(0), "S1": Shard(1), "R": Replicate()}


def values() -> dict[str, torch.Tensor]:
    return {"matrix": torch.arange(35.0).view(7, 5), "vector": torch.arange(9.0) / 4}


def state(placement: str, blank: bool) -> dict[str, Any]:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    result: dict[str, Any] = {"step": 0 if blank else 12, "plain": torch.zeros(3) if blank else torch.arange(3.0)}
    for name, value in values().items():
        where = PLACEMENTS[placement if value.dim() > 1 or placement == "R" else "S0"]
        result[name] = distribute_tensor(torch.zeros_like(value) if blank else value, mesh, [where])
    return result


def save(folder: str, placement: str, asynchronous: bool) -> None:
    content = state(placement, blank=False)
    if asynchronous:
        dcp.async_save(content, checkpoint_id=folder).result()
    else:
        dcp.save(content, checkpoint_id=folder)
    dist.barrier()


def load(folder: str, placement: str) -> tuple[list[Array], int]:
    content = state(placement, blank=True)
    dcp.load(content, checkpoint_id=folder)
    found = [flat([content[name].full_tensor()]) for name in values()]
    return [*found, flat([content["plain"]])], content["step"]


def _trainer() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(dist.get_rank())
    model = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 2))
    fully_shard(model)
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def _step(model: nn.Module, steps: torch.optim.Optimizer, number: int) -> None:
    model.zero_grad()
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(10 * number + dist.get_rank()))
    torch.autograd.backward(model(x).square().mean())
    steps.step()


def _whole(model: nn.Module, steps: torch.optim.Optimizer) -> Array:
    full = StateDictOptions(full_state_dict=True)
    weights, moments = get_state_dict(model, steps, options=full)
    values: Any = [*weights.values()]
    state: Any = moments["state"]
    return flat([*values, *(v for part in state.values() for v in part.values())])


def resume(folder: str) -> tuple[Array, Array]:
    """FSDP2 with Adam: two steps, saved, one step; and a new model that loads and does the third step, too."""
    model, steps = _trainer()
    for number in range(2):
        _step(model, steps, number)
    weights, moments = get_state_dict(model, steps)
    dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=folder)
    _step(model, steps, 2)
    other, its_steps = _trainer()
    weights, moments = get_state_dict(other, its_steps)
    content = {"model": weights, "optimizer": moments}
    dcp.load(content, checkpoint_id=folder)
    set_state_dict(other, its_steps, model_state_dict=content["model"], optim_state_dict=content["optimizer"])
    _step(other, its_steps, 2)
    return _whole(model, steps), _whole(other, its_steps)

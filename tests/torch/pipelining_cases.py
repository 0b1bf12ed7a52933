"""Pipeline parallelism: a stage on each rank, micro-batches between them; each function runs on all ranks."""

# torch.distributed exports less to mypy than to its users.
# mypy: disable-error-code="attr-defined,no-untyped-call,union-attr,arg-type"

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from backend_pair import Array, flat
from torch import nn
from torch.distributed import pipelining
from torch.nn.parallel import DistributedDataParallel

WIDTH, BATCH, MICRO_BATCHES = 10, 12, 6


def layers(count: int) -> list[nn.Sequential]:
    torch.manual_seed(5)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(count)]


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(6)
    return torch.randn(BATCH, WIDTH, generator=random), torch.randn(BATCH, WIDTH, generator=random)


def alone(stages: int) -> tuple[list[Array], float]:
    """The gradient of each stage, and the loss, in one process."""
    parts = layers(stages)
    x, y = batch()
    loss = nn.functional.mse_loss(nn.Sequential(*parts)(x), y)
    torch.autograd.backward(loss)
    return [flat(p.grad for p in part.parameters() if p.grad is not None) for part in parts], loss.item()


def pipelined(schedule: str, per_rank: int) -> tuple[list[Array], float]:
    """Gradients of this rank's stages, in order; and the mean loss of the micro-batches where the last stage is."""
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = layers(size * per_rank)
    mine = [rank + size * i for i in range(per_rank)]
    stages = [pipelining.PipelineStage(parts[i], i, len(parts), torch.device("cpu")) for i in mine]
    chosen: Any = getattr(pipelining, schedule)
    runner = chosen(stages if per_rank > 1 else stages[0], MICRO_BATCHES, loss_fn=nn.functional.mse_loss)
    x, y = batch()
    losses: list[torch.Tensor] = []
    target = {"target": y, "losses": losses} if rank == size - 1 else {}
    if rank == 0:
        runner.step(x, **target)
    else:
        runner.step(**target)
    gradients = [flat(p.grad for p in parts[i].parameters() if p.grad is not None) for i in mine]
    return gradients, sum(loss.item() for loss in losses) / MICRO_BATCHES


def beside_data_parallel() -> Array:
    """A pipeline's messages and DDP's buckets on the same ranks: two pipelines, each rank of both in a DDP pair."""
    rank, size = dist.get_rank(), dist.get_world_size()
    mesh = dist.init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("data", "stage"))
    here, count = rank % (size // 2), size // 2
    part = layers(count)[here]
    model = DistributedDataParallel(part, process_group=mesh.get_group("data"))
    stage = pipelining.PipelineStage(model, here, count, torch.device("cpu"), group=mesh.get_group("stage"))
    runner = pipelining.ScheduleGPipe(stage, 3, loss_fn=nn.functional.mse_loss)
    x, y = (t[6 * (rank // count) : 6 * (rank // count) + 6] for t in batch())
    arguments: dict[str, Any] = {"target": y} if here == count - 1 else {}
    if here == 0:
        runner.step(x, **arguments)
    else:
        runner.step(**arguments)
    return flat(p.grad for p in part.parameters() if p.grad is not None)

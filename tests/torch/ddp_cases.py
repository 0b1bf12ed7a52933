"""Training with DistributedDataParallel; each function runs on all ranks of a group, `alone_*` in one process."""

# torch.distributed exports less to mypy than to its users.
# mypy: disable-error-code="attr-defined,no-untyped-call,union-attr,arg-type"

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from backend_pair import Array, flat
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel.distributed import _MixedPrecision

INPUTS, BATCH, STEPS = 5, 8, 4
SMALL_BUCKETS = {"bucket_cap_mb": 0.0008}  # a bucket for each large parameter


class Net(nn.Module):
    """Two branches; `branch` says which of them an input goes through, the other one is unused then."""

    def __init__(self) -> None:
        super().__init__()
        self.entry = nn.Linear(INPUTS, 24)
        self.branches = nn.ModuleList([nn.Linear(24, 24), nn.Linear(24, 24)])
        self.exit = nn.Linear(24, 2)

    def forward(self, x: torch.Tensor, branch: int | None = None) -> torch.Tensor:
        h = torch.tanh(self.entry(x))
        chosen = self.branches if branch is None else [self.branches[branch]]
        for layer in chosen:
            h = torch.tanh(layer(h))
        y: torch.Tensor = self.exit(h)
        return y


def network(dtype: torch.dtype = torch.float32) -> Net:
    torch.manual_seed(1)
    return Net().to(dtype)


def batch(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(BATCH, INPUTS, generator=random), torch.randn(BATCH, 2, generator=random)


def loss_of(model: nn.Module, rank: int, step: int, branch: int | None = None) -> torch.Tensor:
    x, y = batch(rank, step)
    return nn.functional.mse_loss(model(x, branch).float(), y)


def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def branch_of(rank: int, step: int, unused: bool) -> int | None:
    return (rank + step) % 2 if unused else None


def alone(size: int, unused: bool = False, passes: Sequence[int] = (1,) * STEPS) -> Array:
    """The parameters after the training that `trained` does, in one process: the mean of the ranks' losses."""
    model = network()
    steps = optimizer(model)
    for step, count in enumerate(passes):
        model.zero_grad()
        for number in range(count):
            k = count * step + number
            losses = [loss_of(model, rank, k, branch_of(rank, k, unused)) for rank in range(size)]
            torch.autograd.backward(torch.stack(losses).mean())
        steps.step()
    return flat(model.parameters())


def trained(options: dict[str, Any], unused: bool = False, passes: Sequence[int] = (1,) * STEPS) -> Array:
    """Parameters after some steps of so many passes each; all passes of a step but the last one are in no_sync()."""
    rank = dist.get_rank()
    model = DistributedDataParallel(network(), **{**SMALL_BUCKETS, **options})
    steps = optimizer(model)
    for step, count in enumerate(passes):
        model.zero_grad()
        for number in range(count):
            k = count * step + number
            with contextlib.nullcontext() if number == count - 1 else model.no_sync():
                torch.autograd.backward(loss_of(model, rank, k, branch_of(rank, k, unused)))
        steps.step()
    return flat(model.parameters())


def uneven(divide_by_initial_world_size: bool, counts: Sequence[int]) -> Array:
    """Rank r has counts[r] batches; those that are through shadow the others' collectives."""
    rank = dist.get_rank()
    model = DistributedDataParallel(network(), **SMALL_BUCKETS)
    steps = optimizer(model)
    with model.join(divide_by_initial_world_size=divide_by_initial_world_size):
        for step in range(counts[rank]):
            model.zero_grad()
            torch.autograd.backward(loss_of(model, rank, step))
            steps.step()
    return flat(model.parameters())


def uneven_throws(counts: Sequence[int]) -> str:
    """With throw_on_early_termination all ranks hear that one has no more data."""
    rank = dist.get_rank()
    model = DistributedDataParallel(network())
    try:
        with model.join(throw_on_early_termination=True):
            for step in range(counts[rank]):
                torch.autograd.backward(loss_of(model, rank, step))
    except RuntimeError as error:
        return str(error)
    return ""


def hooked(name: str) -> Array:
    """The gradient of each step with one of torch's own communication hooks, one after the other.

    torch's PowerSGD gets one bucket: it calls collectives from callbacks, which on CPUs run whenever an operation ends,
    so that with several buckets ranks call them in different orders, on any back end.
    """
    model = DistributedDataParallel(network(), **({} if name == "power_sgd" else SMALL_BUCKETS))
    if name == "power_sgd":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif name.startswith("builtin_"):
        kind = getattr(dist.BuiltinCommHookType, name.removeprefix("builtin_").upper())
        model._register_builtin_comm_hook(kind)
    elif name == "fp16_wrapper":
        model.register_comm_hook(None, default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook))
    else:
        model.register_comm_hook(None, getattr(default_hooks, name))
    gradients = []
    for step in range(STEPS):
        model.zero_grad(set_to_none=True)
        torch.autograd.backward(loss_of(model, dist.get_rank(), step))
        gradients += [p.grad for p in model.parameters() if p.grad is not None]
    return flat(gradients)


def autocast() -> Array:
    """torch.amp with bfloat16: parameters and gradients stay in float32."""
    model = DistributedDataParallel(network(), gradient_as_bucket_view=True)
    steps = optimizer(model)
    for step in range(STEPS):
        steps.zero_grad()
        x, y = batch(dist.get_rank(), step)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(x)
            assert out.dtype == torch.bfloat16
        torch.autograd.backward(nn.functional.mse_loss(out.float(), y))
        steps.step()
    return flat(model.parameters())


def whole_in(dtype: str) -> Array:
    """A model whose parameters, and so whose gradients, are of another type."""
    model = DistributedDataParallel(network(getattr(torch, dtype)))
    x, y = batch(dist.get_rank(), 0)
    torch.autograd.backward(nn.functional.mse_loss(model(x.to(getattr(torch, dtype))).float(), y))
    return flat(p.grad for p in model.parameters() if p.grad is not None)


def mixed_precision() -> None:
    """DDP's own mixed precision, which copies parameters on a stream and waits for an event."""
    model = DistributedDataParallel(network(), mixed_precision=_MixedPrecision(torch.bfloat16, torch.bfloat16))
    torch.autograd.backward(loss_of(model, dist.get_rank(), 0))


def buffers() -> tuple[Array, int]:
    """The running means of BatchNorm: rank 0's, sent before each forward pass; and the counter, an int64."""
    torch.manual_seed(dist.get_rank())  # the first broadcast makes parameters equal
    plain = nn.Sequential(nn.Linear(INPUTS, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    model = DistributedDataParallel(plain, broadcast_buffers=True)
    for step in range(STEPS):
        x, y = batch(dist.get_rank(), step)
        torch.autograd.backward(nn.functional.mse_loss(model(x), y))
    model(batch(0, 0)[0])  # the same input, so that the buffers that were sent are what can be compared
    counter = next(b for b in model.buffers() if b.dtype == torch.int64)
    return flat([*model.parameters(), *model.buffers()]), int(counter)


def sync_batch_norm() -> None:
    """Statistics over the batches of all ranks."""
    plain = nn.Sequential(nn.Linear(INPUTS, 8), nn.BatchNorm1d(8))
    nn.SyncBatchNorm.convert_sync_batchnorm(plain)(torch.ones(4, INPUTS))


def sparse_gradient() -> Array:
    """An embedding whose gradient is sparse, with rows that differ by rank."""
    torch.manual_seed(3)
    model = DistributedDataParallel(nn.EmbeddingBag(10, 4, mode="sum", sparse=True))
    rows = torch.tensor([[dist.get_rank(), 7, 2 * dist.get_rank() + 1]])
    torch.autograd.backward(model(rows).square().sum())
    gradient = next(model.parameters()).grad
    assert gradient is not None and gradient.is_sparse
    return flat([gradient.to_dense()])


def complex_parameters() -> Array:
    torch.manual_seed(4)
    model = DistributedDataParallel(nn.Linear(INPUTS, 3, dtype=torch.complex64))
    out = model(batch(dist.get_rank(), 0)[0].to(torch.complex64))
    torch.autograd.backward(out.abs().square().sum())
    return flat(torch.view_as_real(p.grad) for p in model.parameters() if p.grad is not None)


def in_a_subgroup() -> Array:
    """Ranks 0 and 1 train together; the others train, too, each alone in a group."""
    mine = None
    for ranks in ([0, 1], *([r] for r in range(2, dist.get_world_size()))):
        group = dist.new_group(ranks)
        mine = group if dist.get_rank() in ranks else mine
    model = DistributedDataParallel(network(), process_group=mine, **SMALL_BUCKETS)
    torch.autograd.backward(loss_of(model, dist.get_rank(), 0))
    return flat(p.grad for p in model.parameters() if p.grad is not None)


def two_models_at_once() -> Array:
    """Backward passes of two models from two threads' autograd, on the same group."""
    models = [DistributedDataParallel(network(), **SMALL_BUCKETS) for _ in range(2)]
    total = torch.stack([loss_of(m, dist.get_rank(), i) for i, m in enumerate(models)]).sum()
    torch.autograd.backward(total)
    return flat(p.grad for m in models for p in m.parameters() if p.grad is not None)

"""What tests of hooks run on each rank. Data and models come from seeds, so that a test can compute the reference."""

from __future__ import annotations

import contextlib
import pickle
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from unisono.torch import hooks

Array = np.ndarray
INPUTS, HIDDEN, OUTPUTS = 6, 40, 3
SMALL_BUCKETS = 0.0008  # MiB: a bucket for each large parameter


def network(dtype: torch.dtype = torch.float64) -> torch.nn.Module:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(INPUTS, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, OUTPUTS))
    return model.to(dtype)


def samples(rank: int, step: int, count: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    random = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(count, INPUTS, generator=random, dtype=torch.float64).to(dtype)


def loss_of(model: torch.nn.Module, x: torch.Tensor, reduction: str) -> torch.Tensor:
    """Squares of outputs, added up for each sample, and averaged over samples or not; of no samples it is zero."""
    squares: torch.Tensor = model(x).square().sum()
    return squares if reduction == "sum" else squares / max(1, len(x))


def gradient(model: torch.nn.Module) -> Array:
    """The whole gradient, in the order of the model's parameters."""
    parts = [p.grad.reshape(-1) if p.grad is not None else p.new_zeros(p.numel()) for p in model.parameters()]
    entries = torch.cat(parts).detach().double().numpy()
    return np.array(entries)


def alone(batches: Sequence[torch.Tensor], reduction: str = "mean") -> Array:
    """The reference: one process, the joined batch."""
    model = network()
    torch.autograd.backward(loss_of(model, torch.cat(list(batches)), reduction))
    return gradient(model)


def build(reducer: tuple[Any, ...]) -> hooks.StepReducer:
    """("WeightedMean", {...}, ("TopK", {...})): a reducer and the one inside."""
    name, arguments, *inner = reducer
    made: hooks.StepReducer = getattr(hooks, name)(*(build(part) for part in inner), **arguments)
    return made


def wrap(reducer: hooks.StepReducer | None, **options: Any) -> tuple[DistributedDataParallel, hooks.Steps | None]:
    dtype = options.pop("dtype", torch.float64)
    model = DistributedDataParallel(network(dtype), **{"bucket_cap_mb": SMALL_BUCKETS, **options})
    return model, hooks.register(model, reducer) if reducer is not None else None


def weigh(reducer: hooks.StepReducer, weight: float) -> None:
    if isinstance(reducer, hooks.WeightedMean):
        reducer.weigh(weight)


def gradients(
    reducer: tuple[Any, ...] | None,
    counts: Sequence[Sequence[int]],
    reduction: str = "mean",
    options: dict[str, Any] | None = None,
    passes: int = 1,
) -> list[tuple[Array, bool]]:
    """Gradient and `skipped` of each step; counts[step][rank] samples in each pass, and all but the last in no_sync."""
    rank, made = dist.get_rank(), build(reducer) if reducer else None
    model, steps = wrap(made, **(options or {}))
    result = []
    for step, by_rank in enumerate(counts):
        model.zero_grad()
        for number in range(passes):
            x = samples(rank, passes * step + number, by_rank[rank])
            if made is not None:
                weigh(made, by_rank[rank])
            with model.no_sync() if number < passes - 1 else contextlib.nullcontext():
                torch.autograd.backward(loss_of(model, x, reduction))
        last = steps.last if steps else None
        result.append((gradient(model), bool(last and last.skipped)))
    return result


def plain_hook(name: str, scale: float = 1.0) -> tuple[Array, Array]:
    """The gradient with a hook of the first level, and DDP's own."""
    results = []
    for hook in (getattr(hooks, name), None):
        model, _ = wrap(None, dtype=torch.float32)
        if hook is not None:
            model.register_comm_hook(None, hook)
        torch.autograd.backward(scale * loss_of(model, samples(dist.get_rank(), 0, 5, torch.float32), "mean"))
        results.append(gradient(model))
    return results[0], results[1]


def constant_gradient(value: float, reducer: tuple[Any, ...]) -> list[float]:
    """The reduced gradient of parameters whose gradient is this on every rank: smallest and largest entry."""
    model = DistributedDataParallel(torch.nn.Linear(50, 4, bias=False))
    hooks.register(model, build(reducer))
    torch.autograd.backward(model(torch.ones(1, 50)).sum() * value)
    entries = gradient(model)
    return [float(entries.min()), float(entries.max())]


def joined(reducer: tuple[Any, ...], batches: Sequence[int], count: int = 4) -> list[tuple[Array, int]]:
    """Rank r has batches[r] batches: the gradients of its steps, and the number of steps this rank took part in."""
    rank, made = dist.get_rank(), build(reducer)
    model, steps = wrap(made)
    assert steps is not None
    result = []
    with model.join():
        for step in range(batches[rank]):
            model.zero_grad()
            weigh(made, count)
            torch.autograd.backward(loss_of(model, samples(rank, step, count), "mean"))
            result.append(gradient(model))
    assert steps.last is not None and steps.last.absent == (batches[rank] < max(batches))
    return [(entry, steps.last.step + 1) for entry in result]


def integer_gradient(rank: int, step: int, count: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(77 * step + rank)
    return torch.randint(-1000, 1000, (count,), generator=random).double()


class Assigned(torch.nn.Module):
    """A model whose gradient can be chosen: parameters of given shapes, and a loss that is linear in them."""

    def __init__(self, shapes: Sequence[Sequence[int]], dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.parts = torch.nn.ParameterList(torch.zeros(*shape, dtype=dtype) for shape in shapes)

    def forward(self, wanted: torch.Tensor) -> torch.Tensor:
        flat = torch.cat([part.reshape(-1) for part in self.parts])
        return (flat * wanted).sum()


def assigned(shapes: Sequence[Sequence[int]], dtype: torch.dtype = torch.float64) -> DistributedDataParallel:
    return DistributedDataParallel(Assigned(shapes, dtype), bucket_cap_mb=SMALL_BUCKETS)


def feedback(
    reducer: tuple[Any, ...], shapes: Sequence[Sequence[int]], steps: int, join: bool = False
) -> tuple[Array, Array, Array]:
    """Over the steps: the sum of the reduced gradients, of this rank's own, and what is left on this rank."""
    made = build(reducer)
    assert isinstance(made, (hooks.TopK, hooks.PowerSGD))
    model = assigned(shapes)
    hooks.register(model, made)
    reduced, own = [], []
    with model.join() if join else contextlib.nullcontext():
        for step in range(steps):
            model.zero_grad()
            wanted = integer_gradient(dist.get_rank(), step, sum(p.numel() for p in model.parameters()))
            torch.autograd.backward(model(wanted))
            reduced.append(gradient(model))
            own.append(wanted.numpy())
    left = torch.cat([made.residuals.of(p).reshape(-1) for p in model.parameters()])
    return np.sum(reduced, axis=0), np.sum(own, axis=0), left.numpy()


def joined_feedback(
    reducer: tuple[Any, ...], shapes: Sequence[Sequence[int]], batches: Sequence[int]
) -> tuple[Array, Array, Array]:
    """The same with another number of steps on each rank."""
    return feedback(reducer, shapes, batches[dist.get_rank()], join=True)


def repeated(reducer: tuple[Any, ...], wanted: Array, shape: Sequence[int], steps: int) -> list[Array]:
    """The reduced gradients when the gradient is the same in every step, on every rank."""
    model = assigned([shape])
    hooks.register(model, build(reducer))
    results = []
    for _ in range(steps):
        model.zero_grad()
        torch.autograd.backward(model(torch.from_numpy(wanted).reshape(-1)))
        results.append(gradient(model))
    return results


def resumed(reducer: tuple[Any, ...], shapes: Sequence[Sequence[int]]) -> tuple[Array, Array]:
    """The third gradient: of a run without a break, and of one that went through state_dict after two steps."""

    def steps_of(model: DistributedDataParallel, numbers: Sequence[int]) -> Array:
        for step in numbers:
            model.zero_grad()
            torch.autograd.backward(
                model(integer_gradient(dist.get_rank(), step, sum(p.numel() for p in model.parameters())))
            )
        return gradient(model)

    models = [assigned(shapes), assigned(shapes)]
    reducers: list[Any] = [build(reducer), build(reducer)]
    hooks.register(models[0], reducers[0])
    held = hooks.register(models[1], hooks.Mean())
    for model in models:
        steps_of(model, (0, 1))  # in both, so that both have the same buckets by now
    state = pickle.loads(pickle.dumps(reducers[0].state_dict(models[0].module)))
    reducers[1].load_state_dict(models[1].module, state)
    held.replace(reducers[1])
    return steps_of(models[0], (2,)), steps_of(models[1], (2,))


def noised(norm: float, noise: float, seeds: Sequence[int], shapes: Sequence[Sequence[int]], scale: float) -> Array:
    """One step of ClippedNoisy: the reduced gradient of integer gradients times the scale."""
    generator = torch.Generator().manual_seed(seeds[dist.get_rank()])
    reducer = hooks.ClippedNoisy(hooks.Mean(), norm=norm, noise=noise, generator=generator)
    model = assigned(shapes)
    hooks.register(model, reducer)
    count = sum(p.numel() for p in model.parameters())
    torch.autograd.backward(model(scale * integer_gradient(dist.get_rank(), 0, count)))
    return gradient(model)


def guesses(inner: str, noise: float, trials: int) -> int:
    """First steps, half of them without rank 0's gradient: how often the reduced one tells which it was."""
    count, right = 64, 0
    own = torch.zeros(count, dtype=torch.float64)
    own[0] = 1.0  # of norm 1, all in one entry, which a choice by value would find
    for trial in range(trials):
        there = trial % 2 == 0
        generator = torch.Generator().manual_seed(1 + trial * 100 + dist.get_rank())
        reducer = hooks.ClippedNoisy(build((inner, {})), norm=1.0, noise=noise, generator=generator)
        model = assigned([(count,)])
        hooks.register(model, reducer)
        torch.autograd.backward(model(own if there and dist.get_rank() == 0 else torch.zeros_like(own)))
        right += bool((gradient(model)[0] * dist.get_world_size() > 0.5) == there)
    return right


def warned_of_buffers() -> list[bool]:
    """Whether register warns: BatchNorm; without its broadcast; without noise."""
    said = []
    for noise, broadcast in ((1.0, True), (1.0, False), (0.0, True)):
        model = DistributedDataParallel(
            torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)), broadcast_buffers=broadcast
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            hooks.register(model, hooks.ClippedNoisy(hooks.Mean(), norm=1.0, noise=noise))
        said.append(any("1.running_mean" in str(warning.message) for warning in caught))
    return said


def nobodys_step() -> hooks.StepContext:
    """For what is refused before anybody is asked."""
    return hooks.StepContext(step=0, group=None, rank=0, size=1, absent=False)


def refusal(case: Callable[..., Any], **arguments: Any) -> str:
    """The message of the exception that a case ends with."""
    try:
        case(**arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError(f"{case.__name__} did not raise")


class Recorder(hooks.Around):
    """Writes down what it is asked."""

    def __init__(self, inner: hooks.StepReducer) -> None:
        super().__init__(inner)
        self.of_sums = inner.of_sums  # it changes nothing
        self.calls: list[str] = []

    def begin_step(self, ctx: hooks.StepContext) -> None:
        self.calls.append(f"begin {ctx.step}")
        super().begin_step(ctx)

    def reduce(self, ctx: hooks.StepContext, bucket: hooks.Bucket) -> torch.futures.Future[torch.Tensor]:
        self.calls.append(f"bucket {bucket.index}{' last' if bucket.is_last else ''}")
        return self.inner.reduce(ctx, bucket)

    def end_step(self, ctx: hooks.StepContext) -> None:
        super().end_step(ctx)
        self.calls.append(f"end {ctx.step}")


def life_of_a_reducer() -> dict[str, Any]:
    """The calls of three steps, with a replacement after the second; and what DDP says to a second hook."""
    first, second = Recorder(hooks.Mean()), Recorder(hooks.PowerSGD())
    model, steps = wrap(first)
    assert steps is not None
    x = samples(dist.get_rank(), 0, 4)
    for step in range(3):
        if step == 2:
            steps.replace(second)
        torch.autograd.backward(loss_of(model, x, "mean"))
        assert steps.last is not None and steps.last.step == step
    again = refusal(hooks.register, model=model, reducer=hooks.Mean())
    return {"first": first.calls, "second": second.calls, "again": again}


def pickled() -> tuple[int, list[str]]:
    """A Steps that was pickled in the middle of training continues in another model: its step, its reducer's calls."""
    model, steps = wrap(Recorder(hooks.Mean()))
    assert steps is not None
    torch.autograd.backward(loss_of(model, samples(0, 0, 4), "mean"))
    copy = pickle.loads(pickle.dumps(steps))
    fresh = DistributedDataParallel(network())
    fresh.register_comm_hook(copy, hooks.step_hook)
    torch.autograd.backward(loss_of(fresh, samples(0, 0, 4), "mean"))
    return copy.last.step, copy.reducer.calls[-3:]


def training(reducers: Sequence[tuple[Any, ...]], steps: int) -> tuple[Array, float]:
    """Train with many buckets, each reducer in turn; the parameters at the end, and the last loss."""
    model = DistributedDataParallel(
        torch.nn.Sequential(*(layer for _ in range(8) for layer in (torch.nn.Linear(12, 12), torch.nn.Tanh()))),
        bucket_cap_mb=0.0003,
    )
    made = [build(reducer) for reducer in reducers]
    held = hooks.register(model, made[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(16, 12, generator=torch.Generator().manual_seed(dist.get_rank()))
    for step in range(steps):
        reducer = made[step % len(made)]
        held.replace(reducer)
        weigh(reducer, 1 + dist.get_rank())
        optimizer.zero_grad()
        loss = (model(x) - x.flip(1) / 4).square().mean()
        torch.autograd.backward(loss)
        optimizer.step()
    flat = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    return flat.numpy().copy(), float(loss)


def federated(weights: Sequence[float]) -> tuple[list[Array], float]:
    """Models that differ by rank, averaged: parameters and buffers, and the total weight."""
    rank = dist.get_rank()
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2).bfloat16())
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.fill_(rank + 1)
    total = hooks.federated_average(model, weights[rank])
    return [t.detach().double().numpy().copy() for t in (*model.parameters(), *model.buffers())], total


def without_data(reducer: tuple[Any, ...]) -> list[float]:
    """Rank 0 weighs 0 and has gradients that are not numbers; the others' are 3."""
    rank, made = dist.get_rank(), build(reducer)
    model = assigned([[50, 2], [7]])
    hooks.register(model, made)
    weigh(made, rank)
    torch.autograd.backward(model(torch.full((107,), 3.0 if rank else torch.nan, dtype=torch.float64)))
    entries = gradient(model)
    return [float(entries.min()), float(entries.max())]


def bucket_of(index: int, is_last: bool) -> hooks.Bucket:
    return hooks.Bucket(index, is_last, torch.zeros(2), (torch.zeros(2),))


def buckets_of_two_models() -> None:
    steps = hooks.Steps(hooks.Mean())
    steps.take(bucket_of(0, False)).wait()
    steps.take(bucket_of(2, False))


class FailsOnce(Recorder):
    """Raises at its first bucket."""

    def reduce(self, ctx: hooks.StepContext, bucket: hooks.Bucket) -> torch.futures.Future[torch.Tensor]:
        future = super().reduce(ctx, bucket)
        if len(self.calls) == 2:
            future.wait()
            raise ArithmeticError("once")
        return future


def a_step_that_fails() -> list[str]:
    """The calls of a reducer whose first step fails."""
    reducer = FailsOnce(hooks.Mean())
    steps = hooks.Steps(reducer)
    assert "once" in refusal(steps.take, bucket=bucket_of(0, False))
    steps.take(bucket_of(0, False))
    steps.take(bucket_of(1, True)).wait()
    return reducer.calls


def sparse_gradient() -> None:
    model = DistributedDataParallel(torch.nn.Embedding(10, 3, sparse=True))
    hooks.register(model, hooks.Mean())
    torch.autograd.backward(model(torch.tensor([1, 2])).sum())


def document(program: str) -> Array:
    """Run a program of docs/hooks.md with the names that it is told to have; the model and its gradient afterwards."""
    rank, model = dist.get_rank(), DistributedDataParallel(network(torch.float32))
    names = {
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "loss_function": torch.nn.functional.mse_loss,
        "batches": [(samples(rank, step, 4 + rank, torch.float32), torch.ones(4 + rank, OUTPUTS)) for step in range(4)],
    }
    exec(program, names)
    if "federated_average" in program:  # its gradients are each rank's own
        model.zero_grad()
    parameters = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    return np.concatenate([parameters.double().numpy(), gradient(model)])

"""The weighted mean: sum(w_r g_r) / sum(w_r) over ranks r, for batches of different sizes, or confidence."""

import logging
import math

import torch
from torch.futures import Future, collect_all
from torch.nn.parallel import DistributedDataParallel

from unisono.torch.hooks import _collectives as collectives
from unisono.torch.hooks._bucket import Bucket
from unisono.torch.hooks._steps import StepContext, StepReducer

log = logging.getLogger("unisono.torch.hooks")

# Products with float32 gradients stay in range between these.
SMALLEST, LARGEST = 1e-18, 1e18


def check_weight(weight: float) -> float:
    """The weight, or ValueError: it must be 0 or an ordinary positive number, for one bad rank spoils all."""
    weight = float(weight)
    if not (math.isfinite(weight) and (weight == 0 or SMALLEST <= weight <= LARGEST)):
        raise ValueError(
            f"a weight must be 0 (no data) or between {SMALLEST:g} and {LARGEST:g}, and this is {weight!r}: "
            "nothing was sent; scale all ranks' weights alike if they are too large or too small"
        )
    return weight


def widened(dtype: torch.dtype) -> torch.dtype:
    """What weighted gradients of that type are added up in: float32 at least."""
    return torch.promote_types(dtype, torch.float32)


def weigh_(gradient: torch.Tensor, factor: float) -> torch.Tensor:
    """Multiply in place; factor 0 gives zeros also where the gradient is not finite: no data has no say."""
    return gradient.mul_(factor) if factor else gradient.zero_()


class WeightedMean(StepReducer):
    """Average gradients by weights; each rank says its own, before the backward pass, with `weigh`.

    gradients: "mean": each rank's loss is a mean over its samples, and its gradient counts as often as its weight.
        "sum": the loss is a sum over samples (reduction="sum"), and so is the gradient: it is only divided by the sum
        of the weights. Accumulation under no_sync needs "sum", and a `weigh` for each pass.
    inner: what reduces the weighted gradients. None: an all_reduce, whose first bucket carries the weight, so that
        nothing else is sent. Any other costs one reduction of 8 bytes more, at the step's beginning.

    A rank that has joined, or weighs 0, is as if it were not there. When all are, gradients become zero, `skipped` of
    the step is set, and a warning is logged.
    """

    def __init__(self, inner: StepReducer | None = None, *, gradients: str = "mean") -> None:
        if gradients not in ("mean", "sum"):
            raise ValueError(f'gradients are "mean" or "sum" over the samples, not {gradients!r}')
        self.inner = inner
        self.gradients = gradients
        self.total = 0.0
        """The sum of the weights in the last step, on all ranks."""
        self._given: float | None = None
        self._weight = 0.0
        self._total: Future[torch.Tensor] | None = None

    def registered(self, model: DistributedDataParallel) -> None:
        """Tell the inner reducer."""
        if self.inner is not None:
            self.inner.registered(model)

    def weigh(self, weight: float) -> None:
        """Say how much this rank's next backward pass counts: its samples, tokens, or confidence.

        Raises ValueError for a negative weight, NaN or infinity, and RuntimeError for a second weight in a step
        whose gradients are means, for means of different batches cannot be weighted once they are added.
        """
        weight = check_weight(weight)
        if self._given is not None and self.gradients == "mean":
            raise RuntimeError(
                "this step has a weight already: with several backward passes for a step (no_sync) use sums: "
                'WeightedMean(gradients="sum") and a loss with reduction="sum"; after a step that failed call forget()'
            )
        self._given = check_weight(weight + (self._given or 0.0))

    def forget(self) -> None:
        """Drop the weight that was given, because the step it was for will not be."""
        self._given = None

    def begin_step(self, ctx: StepContext) -> None:
        """Fix the weight for all buckets of the step."""
        if ctx.absent:
            self._weight = 0.0
        elif self._given is None:
            raise RuntimeError(f"rank {ctx.rank}, step {ctx.step}: no weight; call weigh(...) before backward()")
        else:
            self._weight, self._given = self._given, None
        self._total = None
        if self.inner is None:
            return
        total = collectives.all_reduce(torch.tensor([self._weight], dtype=torch.float64), ctx.group)
        self.total = float(total.wait())
        if self.total:
            self.inner.begin_step(ctx)

    def reduce(self, ctx: StepContext, bucket: Bucket) -> Future[torch.Tensor]:
        """Weight, reduce, divide."""
        if self.inner is None:
            return self._reduce_fused(ctx, bucket)
        if not self.total:  # which all ranks know
            nothing: Future[torch.Tensor] = Future()
            nothing.set_result(bucket.buffer.zero_())
            return nothing
        # The inner reducer makes a mean over ranks of it: factors near 1 keep 16 bits in range.
        weigh_(bucket.buffer, self._factor() * ctx.size / self.total)
        return self.inner.reduce(ctx, bucket)

    def end_step(self, ctx: StepContext) -> None:
        """Tell when nobody had data."""
        if self._total is not None:
            self.total = float(self._total.value())
        if not math.isfinite(self.total):
            raise RuntimeError(f"rank {ctx.rank}, step {ctx.step}: the weights add up to {self.total}: scale them down")
        if self.total == 0:
            ctx.skipped = True
            log.warning("step %d: all ranks weigh 0: gradients are zero, skip the optimizer's step", ctx.step)
        elif self.inner is not None:
            self.inner.end_step(ctx)

    def _factor(self) -> float:
        """What the gradient of this rank is multiplied with before it is added to the others'."""
        if self._weight == 0:
            return 0.0
        return self._weight if self.gradients == "mean" else 1.0

    def _reduce_fused(self, ctx: StepContext, bucket: Bucket) -> Future[torch.Tensor]:
        """Numerator and, behind the first bucket's, the weight in one reduction; later ones use its total."""
        buffer, count = bucket.buffer, bucket.buffer.numel()
        first = self._total is None
        if first or widened(buffer.dtype) != buffer.dtype:
            sent = buffer.new_empty(count + first, dtype=widened(buffer.dtype))
            sent[:count] = buffer
        else:
            sent = buffer
        weigh_(sent[:count], self._factor())
        if first:
            sent[count] = self._weight
        reduced = collectives.all_reduce(sent, ctx.group)
        if self._total is None:
            self._total = reduced.then(lambda done: done.value()[count])

        def divide(done: Future[list[Future[torch.Tensor]]]) -> torch.Tensor:
            numerator, total = (part.value() for part in done.value())
            mean = numerator[:count].div_(total) if total != 0 else numerator[:count].zero_()
            return mean if mean.dtype == buffer.dtype else buffer.copy_(mean)

        return collect_all([reduced, self._total]).then(divide)

"""Clipped and noised: differential privacy whose unit is the rank.

Each rank's gradient of the whole step is clipped to norm C, and each rank adds its share of noise, N(0, s^2 C^2 / n)
for n ranks, before anything leaves it. So the sum has noise of deviation s C, and the mean s C / n. Without the data of
one rank the sum of clipped gradients is at most C away: that is what s, the noise multiplier, is measured against.

What this is not: privacy of single samples, which needs their gradients one by one; secrecy towards other ranks, who
could see single contributions with 1/n of the noise's variance; an accountant, which adds up the privacy that steps
cost. And torch's generators are no cryptographic ones.
"""

import hashlib
import math
import secrets
import warnings

import torch
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from unisono.torch.hooks import _collectives as collectives
from unisono.torch.hooks._bucket import Bucket
from unisono.torch.hooks._steps import Around, StepContext, StepReducer
from unisono.torch.hooks._weighted import WeightedMean


class ClippedNoisy(Around):
    """Clip each rank's gradient of a step as a whole, add Gaussian noise, and let `inner` average it.

    norm: C above. noise: the noise multiplier s; 0 clips only.
    generator: where noise comes from, seeded differently on each rank; None: from the operating system's entropy.
    inner: reduces what is clipped and noised, by sums alone (StepReducer.of_sums): Mean, Half, PowerSGD. With noise,
        others raise ValueError: an entry that some ranks leave out, as TopK does, has too few shares of noise. So does
        a WeightedMean, whose weights would undo the bound: put it around this one.

    What DDP itself broadcasts has no noise: the parameters at its start, and rank 0's buffers (running statistics of
    BatchNorm) in every forward pass. `register` warns where the model has such buffers.
    Around it, WeightedMean sends the sum of the weights as it is: they must be public, and not depend on who is there.

    Fails closed: a gradient that is not finite, or generators that are alike on two ranks, raise before a gradient is
    sent, and a rank that is missing fails the reduction. Its buckets wait for the last one, because the norm needs all.
    """

    def __init__(
        self, inner: StepReducer, *, norm: float, noise: float, generator: torch.Generator | None = None
    ) -> None:
        if not (math.isfinite(norm) and norm > 0 and math.isfinite(noise) and noise >= 0):
            raise ValueError(f"the norm must be positive and the noise not negative: norm {norm!r}, noise {noise!r}")
        if any(isinstance(reducer, WeightedMean) for reducer in nest(inner)):
            raise ValueError(
                "weights inside would undo the clipping: write WeightedMean(ClippedNoisy(...)), "
                "which clips what is weighted"
            )
        super().__init__(inner)
        self.norm, self.noise = norm, noise
        self._check_inner()
        self.generator = generator or torch.Generator().manual_seed(secrets.randbits(63))
        self._checked = False
        self._held: list[tuple[Bucket, Future[torch.Tensor]]] = []

    def _check_inner(self) -> None:
        if self.noise and not self.inner.of_sums:
            raise ValueError(
                f"{type(self.inner).__name__} does not reduce by sums over all ranks alone (of_sums), so the "
                "ranks' shares of noise would not add up to what is promised: take Mean, Half or PowerSGD, or noise=0"
            )

    def registered(self, model: DistributedDataParallel) -> None:
        """Warn when DDP sends what this does not see."""
        super().registered(model)
        learnt = [name for name, buffer in model.module.named_buffers() if buffer.is_floating_point()]
        if self.noise and model.broadcast_buffers and learnt:
            warnings.warn(
                f"DDP broadcasts rank 0's buffers without noise before every forward pass ({', '.join(learnt[:3])}"
                f"{', ...' if len(learnt) > 3 else ''}): what they have learnt of rank 0's data is not private. Make "
                "the model without running statistics (GroupNorm), or DistributedDataParallel(broadcast_buffers=False)",
                RuntimeWarning,
                stacklevel=3,
            )

    def begin_step(self, ctx: StepContext) -> None:
        """Begin the inner step; in the first one, make sure that ranks draw different noise."""
        self._held = []
        self._check_inner()
        if self.noise and not self._checked:
            self._refuse_equal_generators(ctx)
            self._checked = True
        super().begin_step(ctx)

    def reduce(self, ctx: StepContext, bucket: Bucket) -> Future[torch.Tensor]:
        """Hold buckets until the last one; then clip, add noise, and reduce them all."""
        future: Future[torch.Tensor] = Future()
        self._held.append((bucket, future))
        if bucket.is_last:
            self._release(ctx)
        return future

    def _release(self, ctx: StepContext) -> None:
        norm = math.sqrt(sum(float(bucket.buffer.double().square().sum()) for bucket, _ in self._held))
        if not math.isfinite(norm):
            raise FloatingPointError(
                f"rank {ctx.rank}, step {ctx.step}: the norm of the gradient is {norm}, which cannot be clipped: "
                "nothing was sent; look for the overflow in the loss"
            )
        scale = min(1.0, self.norm / norm) if norm > 0 else 1.0
        deviation = self.noise * self.norm / math.sqrt(ctx.size)
        # All of it is noised before any of it is sent.
        for bucket, _ in self._held:
            bucket.buffer.mul_(scale)
            if deviation:
                bucket.buffer.add_(self._draw(bucket.buffer), alpha=deviation)
        reduced = [(self.inner.reduce(ctx, bucket), future) for bucket, future in self._held]
        for result, future in reduced:
            future.set_result(result.wait())

    def _draw(self, like: torch.Tensor) -> torch.Tensor:
        wide = torch.promote_types(like.dtype, torch.float32)
        return torch.randn(like.shape, generator=self.generator, dtype=wide).to(like.device, like.dtype)

    def _refuse_equal_generators(self, ctx: StepContext) -> None:
        """Compare digests: the states themselves stay secret."""
        digest = hashlib.sha256(bytes(self.generator.get_state().tolist())).digest()
        mine = torch.tensor(list(digest), dtype=torch.uint8)
        rows = [tuple(row) for row in collectives.all_gather(mine, ctx.group).wait().tolist()]
        twins = [rank for rank, row in enumerate(rows) if rows.count(row) > 1]
        if twins:
            raise RuntimeError(
                f"rank {ctx.rank}: ranks {twins} would draw the same noise, which does not hide them from each other: "
                "seed each rank's generator differently, or leave it out"
            )


def nest(reducer: StepReducer | None) -> list[StepReducer]:
    """A reducer and those inside it, from the outermost on."""
    found = []
    while reducer is not None:
        found.append(reducer)
        reducer = getattr(reducer, "inner", None)
    return found

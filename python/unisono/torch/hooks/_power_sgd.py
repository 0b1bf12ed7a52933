"""PowerSGD: matrices of gradients as products of two thin ones (Vogels, Karimireddy and Jaggi 2019).

For the mean over ranks M of a gradient, n by m, and a thin Q, m by r, left by the step before:

    P = mean(M_i Q)                one all_reduce of n*r numbers
    P = orthonormal basis of P     each rank by itself, from the same bits
    Q = mean(M_i' P)               one all_reduce of m*r numbers
    M ~ P Q'                       and M_i - P Q' is fed back to the next step

which is a step of power iteration towards the r leading directions of M. The mean of P is started when a bucket
arrives; everything after it happens at the last bucket, in the order of buckets. Started from callbacks, the second
reductions would come in another order on each rank.
"""

from dataclasses import dataclass, field

import torch
from torch.futures import Future

from unisono.torch.hooks import _collectives as collectives
from unisono.torch.hooks._bucket import Bucket
from unisono.torch.hooks._feedback import Residuals
from unisono.torch.hooks._steps import StepContext, StepReducer


@dataclass
class _Matrix:
    """A parameter's gradient in the course of a step, in float32 or wider."""

    parameter: torch.Tensor
    gradient: torch.Tensor
    """A view of the bucket's buffer, in the parameter's shape: where the result goes."""
    local: torch.Tensor
    """This rank's gradient and what was left of earlier ones, n by m."""
    basis: torch.Tensor
    """P, n by r."""


@dataclass
class _Pending:
    """A bucket between its first reduction and the last one."""

    bucket: Bucket
    future: Future[torch.Tensor]
    reduced: Future[torch.Tensor]
    dense: list[torch.Tensor]
    matrices: list[_Matrix] = field(default_factory=list)


class PowerSGD(StepReducer):
    """The mean over ranks in low rank, with error feedback; vectors and small matrices are averaged exactly.

    rank: r above. As large as the smaller side of a matrix, the mean is exact.
    least_gain: a matrix is compressed when that makes it smaller by this factor at least.
    warm_start: begin with the last step's Q instead of a random one: better, for one step of iteration is little.
    dense_steps: so many steps first are exact means, while gradients change direction fast.
    seed: of the random Q; the same on all ranks.
    """

    of_sums = True

    def __init__(
        self,
        rank: int = 1,
        *,
        least_gain: float = 2.0,
        warm_start: bool = True,
        dense_steps: int = 0,
        seed: int = 0,
    ) -> None:
        if rank < 1 or dense_steps < 0 or least_gain < 0:
            raise ValueError(f"rank {rank} (from 1), dense_steps {dense_steps}, least_gain {least_gain} (from 0)")
        self.rank, self.least_gain = rank, least_gain
        self.warm_start, self.dense_steps = warm_start, dense_steps
        self.residuals = Residuals()
        self._random = torch.Generator().manual_seed(seed)
        self._right: dict[torch.Tensor, torch.Tensor] = {}
        self._pending: list[_Pending] = []
        self._steps = 0

    def begin_step(self, ctx: StepContext) -> None:
        """Drop what a step that was cut short left."""
        self._pending = []

    def reduce(self, ctx: StepContext, bucket: Bucket) -> Future[torch.Tensor]:
        """Start the first reduction; at the last bucket do the rest for all of them."""
        self._pending.append(self._start(ctx, bucket))
        future = self._pending[-1].future
        if bucket.is_last:
            self._finish(ctx)
        return future

    def end_step(self, ctx: StepContext) -> None:
        """Count the step."""
        self._pending = []
        self._steps += 1

    def pays(self, shape: torch.Size) -> bool:
        """Whether a gradient of this shape is compressed."""
        if len(shape) < 2 or self._steps < self.dense_steps:
            return False
        rows, columns = shape[0], shape[1:].numel()
        rank = min(self.rank, rows, columns)
        return bool(rows * columns >= self.least_gain * rank * (rows + columns))

    def _start(self, ctx: StepContext, bucket: Bucket) -> _Pending:
        """Exact gradients and the P of the others, in one reduction."""
        wide = torch.promote_types(bucket.buffer.dtype, torch.float32)
        dense, matrices = [], []
        for parameter, gradient in zip(bucket.parameters, bucket.gradients(), strict=True):
            if not self.pays(parameter.shape):
                dense.append(gradient)
                continue
            local = gradient.to(wide, copy=True)
            self.residuals.add_to(parameter, local)
            local = local.view(local.shape[0], -1)
            matrices.append(_Matrix(parameter, gradient, local, local @ self._right_of(parameter, local)))
        sent = flat([*dense, *(matrix.basis for matrix in matrices)], bucket.buffer.dtype if not matrices else wide)
        reduced = collectives.all_reduce(sent.div_(ctx.size), ctx.group)
        return _Pending(bucket, Future(), reduced, dense, matrices)

    def _right_of(self, parameter: torch.Tensor, local: torch.Tensor) -> torch.Tensor:
        """Q for a parameter: the last step's, or random and the same on all ranks, for they draw in the same order."""
        right = self._right.get(parameter) if self.warm_start else None
        if right is None:
            rows, columns = local.shape
            size = (columns, min(self.rank, rows, columns))
            right = torch.randn(size, generator=self._random, dtype=local.dtype).to(local.device)
        return right

    def _finish(self, ctx: StepContext) -> None:
        """Bases of all buckets, one reduction for all Q, and the products."""
        for pending in self._pending:
            parts = unflat(pending.reduced.wait(), [*pending.dense, *(matrix.basis for matrix in pending.matrices)])
            for gradient, mean in zip(pending.dense, parts, strict=False):
                gradient.copy_(mean)
            for matrix, mean in zip(pending.matrices, parts[len(pending.dense) :], strict=True):
                matrix.basis = torch.linalg.qr(mean).Q
        matrices = [matrix for pending in self._pending for matrix in pending.matrices]
        if matrices:
            rights = [matrix.local.T @ matrix.basis for matrix in matrices]
            sent = flat(rights, torch.promote_types(torch.float32, max((r.dtype for r in rights), key=width)))
            means = unflat(collectives.all_reduce(sent.div_(ctx.size), ctx.group).wait(), rights)
            for matrix, right in zip(matrices, means, strict=True):
                self._product(matrix, right.to(matrix.local.dtype))
        for pending in self._pending:
            pending.future.set_result(pending.bucket.buffer)

    def _product(self, matrix: _Matrix, right: torch.Tensor) -> None:
        """The gradient that all ranks use, and what it lacks of this rank's."""
        product = matrix.basis @ right.T
        matrix.gradient.copy_(product.view_as(matrix.gradient))
        self._right[matrix.parameter] = right
        self.residuals.keep(matrix.parameter, (matrix.local - product).view(matrix.parameter.shape))

    def state_dict(self, model: torch.nn.Module) -> dict[str, object]:
        """This rank's state: residuals and Q by parameter names, the steps so far, the generator."""
        right = {name: self._right[p].clone() for name, p in model.named_parameters() if p in self._right}
        return {
            "residuals": self.residuals.state_dict(model),
            "right": right,
            "steps": self._steps,
            "random": self._random.get_state(),
        }

    def load_state_dict(self, model: torch.nn.Module, state: dict[str, object]) -> None:
        """Take over what state_dict returned on this rank."""
        residuals, right, steps, random = state["residuals"], state["right"], state["steps"], state["random"]
        assert isinstance(residuals, dict) and isinstance(right, dict)
        assert isinstance(steps, int) and isinstance(random, torch.Tensor)
        self.residuals.load_state_dict(model, residuals)
        parameters = dict(model.named_parameters())
        self._right = {parameters[name]: value.clone() for name, value in right.items()}
        self._steps = steps
        self._random.set_state(random)


def width(dtype: torch.dtype) -> int:
    """Bytes of an element."""
    return int(dtype.itemsize)


def flat(tensors: list[torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    """All elements in one vector of that type."""
    return torch.cat([tensor.reshape(-1).to(dtype) for tensor in tensors])


def unflat(vector: torch.Tensor, like: list[torch.Tensor]) -> list[torch.Tensor]:
    """The parts of what flat made, in the shapes of what it was made of."""
    parts = torch.split_with_sizes(vector, [tensor.numel() for tensor in like])
    return [part.view(tensor.shape) for part, tensor in zip(parts, like, strict=True)]

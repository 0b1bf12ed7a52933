"""Top-k: each rank sends the largest entries of its gradient, and keeps the others for later steps.

The sum of what was sent and of what is left is the sum of the gradients, exactly: entries are moved, never rounded.
Aji and Heafield 2017; Stich, Cordonnier and Jaggi 2018 for the memory.
"""

import math

import torch
from torch.futures import Future

from unisono.torch.hooks import _collectives as collectives
from unisono.torch.hooks._bucket import Bucket
from unisono.torch.hooks._feedback import Residuals
from unisono.torch.hooks._steps import StepContext, StepReducer


class TopK(StepReducer):
    """The mean over ranks of the largest entries, a share of each bucket, with error feedback.

    One all_gather for each bucket: with n ranks a rank receives n * share * (4 + bytes of an entry) for each entry of
    the gradient, so that a share above 1/(2n) or so sends no less than an all_reduce does.
    """

    def __init__(self, share: float = 0.01) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"the share of entries that is sent lies above 0 and is at most 1, not {share!r}")
        self.share = share
        self.residuals = Residuals()

    def reduce(self, ctx: StepContext, bucket: Bucket) -> Future[torch.Tensor]:
        """Choose, send, and add up what all ranks sent, in the order of ranks."""
        count = bucket.buffer.numel()
        chosen = max(1, math.ceil(self.share * count))
        values, indices = self._choose(bucket, chosen)
        gathered = collectives.all_gather(pack(values, indices), ctx.group)

        def add_up(done: Future[torch.Tensor]) -> torch.Tensor:
            bucket.buffer.zero_()
            for message in done.value():
                values, indices = unpack(message, chosen, bucket.buffer.dtype)
                bucket.buffer.index_add_(0, indices, values)
            return bucket.buffer.div_(ctx.size)

        return gathered.then(add_up)

    def _choose(self, bucket: Bucket, chosen: int) -> tuple[torch.Tensor, torch.Tensor]:
        """This rank's largest entries and where they are; the rest stays in the residuals."""
        rest = bucket.with_buffer(bucket.buffer.clone())
        for parameter, gradient in zip(rest.parameters, rest.gradients(), strict=True):
            self.residuals.add_to(parameter, gradient)
        indices = rest.buffer.abs().topk(chosen, sorted=False).indices
        values = rest.buffer[indices]
        rest.buffer[indices] = 0
        for parameter, gradient in zip(rest.parameters, rest.gradients(), strict=True):
            self.residuals.keep(parameter, gradient)
        return values, indices.to(torch.int32)

    def state_dict(self, model: torch.nn.Module) -> dict[str, torch.Tensor]:
        """What is left unsent on this rank, by parameter names."""
        return self.residuals.state_dict(model)

    def load_state_dict(self, model: torch.nn.Module, state: dict[str, torch.Tensor]) -> None:
        """Take over what state_dict returned on this rank."""
        self.residuals.load_state_dict(model, state)


def pack(values: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Values and 32-bit indices as one message of bytes; indices first, whose alignment is 4."""
    return torch.cat([indices.view(torch.uint8), values.view(torch.uint8)])


def unpack(message: torch.Tensor, count: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Values and indices of a message. Copies: parts of a message are not aligned for every type."""
    indices, values = torch.split_with_sizes(message, [4 * count, message.numel() - 4 * count])
    return values.clone().view(dtype), indices.clone().view(torch.int32).to(torch.int64)

"""What a hook gets: the gradients of some parameters, one after the other in one flat tensor."""

import dataclasses
from dataclasses import dataclass

import torch
from torch._C._distributed_c10d import GradBucket


@dataclass(frozen=True)
class Bucket:
    """A part of a step's gradient, as it comes from the backward pass.

    `index` counts from 0 within a step. Which parameters an index holds changes after the first step, when DDP knows
    in which order gradients arrive: what must outlast a step belongs to parameters, never to an index.
    """

    index: int
    is_last: bool
    buffer: torch.Tensor
    """Flat; the hook may write into it. Not divided by anything yet."""
    parameters: tuple[torch.Tensor, ...]
    """The model's parameters in the order of their gradients in the buffer."""

    @classmethod
    def of(cls, bucket: GradBucket) -> "Bucket":
        """DDP's bucket as a value of ours. Raises TypeError for sparse gradients, which are not one flat tensor."""
        buffer, parameters = bucket.buffer(), tuple(bucket.parameters())
        if buffer.layout != torch.strided:
            raise TypeError(
                f"gradient bucket {bucket.index()} holds a {buffer.layout} gradient, and this hook needs dense ones: "
                "use sparse=False in nn.Embedding, or the hook all_reduce"
            )
        if sum(parameter.numel() for parameter in parameters) != buffer.numel():
            raise ValueError(
                f"gradient bucket {bucket.index()} has {buffer.numel()} elements, and its parameters "
                f"{sum(parameter.numel() for parameter in parameters)}: only torch's own DDP is supported"
            )
        return cls(bucket.index(), bucket.is_last(), buffer, parameters)

    def gradients(self) -> list[torch.Tensor]:
        """The gradient of each parameter, in the parameter's shape: views of the buffer."""
        parts = torch.split_with_sizes(self.buffer, [parameter.numel() for parameter in self.parameters])
        return [part.view(parameter.shape) for part, parameter in zip(parts, self.parameters, strict=True)]

    def with_buffer(self, buffer: torch.Tensor) -> "Bucket":
        """The same place in the step with another buffer of as many elements, for the reducer inside this one."""
        return dataclasses.replace(self, buffer=buffer)

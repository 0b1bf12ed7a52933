"""Aggregate gradients in your own way: communication hooks for DistributedDataParallel, on any back end.

Two levels. A hook has torch's signature, `hook(state, bucket)`, and sees one bucket: `all_reduce`, `fp16_compress`,
`bf16_compress`. A `StepReducer` knows where a step begins and ends, can be put around another one, and can be replaced
while training:

    mean = WeightedMean()
    steps = register(model, mean)  # model: DistributedDataParallel
    mean.weigh(len(batch))
    loss.backward()
    steps.replace(PowerSGD(rank=4))

Reducers: `Mean`, `Half`, `WeightedMean`, `ClippedNoisy`, `TopK`, `PowerSGD`. See docs/hooks.md.
"""

from unisono.torch.hooks._bucket import Bucket
from unisono.torch.hooks._federated import federated_average
from unisono.torch.hooks._feedback import Residuals
from unisono.torch.hooks._mean import Half, Mean, all_reduce, bf16_compress, fp16_compress
from unisono.torch.hooks._power_sgd import PowerSGD
from unisono.torch.hooks._private import ClippedNoisy
from unisono.torch.hooks._steps import Around, StepContext, StepReducer, Steps, register, step_hook
from unisono.torch.hooks._top_k import TopK
from unisono.torch.hooks._weighted import WeightedMean

__all__ = [
    "Around",
    "Bucket",
    "ClippedNoisy",
    "Half",
    "Mean",
    "PowerSGD",
    "Residuals",
    "StepContext",
    "StepReducer",
    "Steps",
    "TopK",
    "WeightedMean",
    "all_reduce",
    "bf16_compress",
    "federated_average",
    "fp16_compress",
    "register",
    "step_hook",
]

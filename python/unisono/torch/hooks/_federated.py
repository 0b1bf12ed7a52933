"""Federated averaging: ranks train by themselves for a while, then average their models by samples.

McMahan et al. 2017. Not a hook: between two rounds no gradient travels, and a DDP model is not needed.
"""

import torch

from unisono.torch.hooks import _collectives as collectives
from unisono.torch.hooks._collectives import Group
from unisono.torch.hooks._weighted import check_weight, weigh_, widened


def federated_average(model: torch.nn.Module, weight: float, group: Group = None) -> float:
    """Replace parameters and floating-point buffers by their mean over ranks, weighted; blocks.

    weight: this rank's samples since the last average; 0: it had none, and gets what the others have. One reduction for
    each type of element, which carries the weight too. Returns the sum of the weights; when it is 0, nothing changes.
    Raises ValueError for a weight that is negative, NaN or infinite, before anything is sent.
    """
    weight = check_weight(weight)
    by_type: dict[torch.dtype, list[torch.Tensor]] = {}
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.is_floating_point():
            by_type.setdefault(tensor.dtype, []).append(tensor)
    sums = []
    for dtype, tensors in by_type.items():
        wide = widened(dtype)
        values = torch.cat([tensor.detach().reshape(-1).to(wide) for tensor in tensors])
        sent = torch.cat([weigh_(values, weight), values.new_tensor([weight])])
        sums.append((tensors, collectives.all_reduce(sent, group)))
    total = 0.0
    with torch.no_grad():
        for tensors, reduced in sums:
            values = reduced.wait()
            total = float(values[-1])
            if total == 0:
                continue
            parts = torch.split_with_sizes(values[:-1].div_(total), [tensor.numel() for tensor in tensors])
            for tensor, part in zip(tensors, parts, strict=True):
                tensor.copy_(part.view(tensor.shape))
    return total

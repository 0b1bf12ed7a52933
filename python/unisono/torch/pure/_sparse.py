"""all_reduce of sparse COO tensors: the sum of what all ranks hold. Ranks may have different numbers of entries."""

from __future__ import annotations

from typing import Any

import torch

from unisono import _core
from unisono.torch.pure._tensors import NAMED, check, flat, name_of, packed

TYPES = sorted(map(str, NAMED | {torch.complex64, torch.complex128}))


@torch.no_grad()
def all_reduce(group: _core.Group, tensors: list[torch.Tensor], op: Any, seconds: float) -> None:
    """In two steps: who has how many entries, then everybody's indices and values. Each rank sums in rank order."""
    what = "unisono:all_reduce"
    check(len(tensors) == 1, what, ": ", len(tensors), " tensors were given, one is needed")
    check(tensors[0].device.type == "cpu", what, ": the sparse tensor is on ", tensors[0].device, ", not on the CPU")
    check(name_of(op) == "SUM", what, ": sparse tensors can be summed, nothing else")
    check(str(tensors[0].dtype) in TYPES, what, ": sparse tensors of ", tensors[0].dtype, " cannot be summed")
    t = tensors[0].coalesce()
    mine = torch.tensor([t._nnz(), t.sparse_dim(), t.dense_dim(), TYPES.index(str(t.dtype)), *t.shape])
    everyones = torch.empty(group.size, len(mine), dtype=torch.int64)
    group.all_gather(mine, everyones, timeout=seconds)
    for r in range(group.size):
        same = torch.equal(everyones[r, 1:], mine[1:])
        theirs = f"the sparse tensor of rank {r} has another shape or type"
        check(same, what, ": ", theirs, " than that of rank ", group.rank)
    entries = everyones[:, 0].tolist()
    indices = _gathered(group, t.indices().t(), entries, seconds)
    values = _gathered(group, t.values(), entries, seconds)
    total: Any = None
    for i, v in zip(indices, values, strict=True):
        part = torch.sparse_coo_tensor(i.t(), v, t.shape)
        total = part if total is None else total + part
    tensors[0].copy_(total.coalesce())


def _gathered(group: _core.Group, t: torch.Tensor, rows: list[int], seconds: float) -> list[torch.Tensor]:
    """Everybody's rows of dimension 0."""
    width = 1
    for n in t.shape[1:]:
        width *= n
    out = torch.empty(sum(rows), *t.shape[1:], dtype=t.dtype)
    each = 2 * width if t.is_complex() else width
    group.all_gather(flat(packed(t)), flat(out), counts=[n * each for n in rows], timeout=seconds)
    return list(torch.split(out, rows))

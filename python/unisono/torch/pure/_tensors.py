"""What unisono gets of a tensor: packed memory of elements that it has a name for, or bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist

NAMED = (
    {torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool}
    | {torch.int8, torch.int16, torch.int32, torch.int64}
    | {torch.uint8, torch.uint16, torch.uint32, torch.uint64}
)
FLOATING = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
BITS = ("BAND", "BOR", "BXOR")
CALLED = {
    torch.bool: "Bool",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.float32: "Float",
    torch.float64: "Double",
    torch.int8: "Char",
    torch.int16: "Short",
    torch.int32: "Int",
    torch.int64: "Long",
    torch.uint8: "Byte",
}
"""What errors of torch's C++ call them."""
OPS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", *BITS, "PREMUL_SUM")


def check(good: bool, *text: object) -> None:
    """RuntimeError, as torch's own checks raise, unless `good`."""
    if not good:
        raise RuntimeError("".join(map(str, (*text, ". Nothing was sent"))))


def check_dense(t: torch.Tensor, what: str) -> None:
    """A dense CPU tensor."""
    alone = "and the group has this back end alone where it is not compiled, which moves CPU memory"
    remedy = 'Copy the tensor to the CPU, or install a C++ compiler and use init_process_group("cpu:unisono,cuda:nccl")'
    check(t.device.type == "cpu", what, ": the tensor is on ", t.device, ", ", alone, ". ", remedy)
    strided = t.layout == torch.strided
    check(strided, what, ": the tensor's layout is ", t.layout, "; this operation takes dense tensors")


def check_same_type(tensors: Iterable[torch.Tensor], like: torch.Tensor, what: str) -> None:
    """Dense tensors of one type."""
    for t in tensors:
        check_dense(t, what)
        same = t.dtype == like.dtype
        check(same, what, ": tensors of type ", t.dtype, " and ", like.dtype, " in one call; they must have one type")


def check_writable(t: torch.Tensor, what: str) -> None:
    """Each element has its own memory."""
    shared = any(stride == 0 and size > 1 for stride, size in zip(t.stride(), t.size(), strict=True))
    check(
        not shared or t.numel() == 0,
        what,
        ": the result goes into a tensor whose elements share memory (from expand()?); use its clone()",
    )


def is_packed(t: torch.Tensor) -> bool:
    """Elements in logical order, without lazy conjugation or negation."""
    return t.is_contiguous() and not t.is_conj() and not t.is_neg()


def packed(t: torch.Tensor) -> torch.Tensor:
    """In logical order; `t` itself, without gradients, when it is that already."""
    return t.detach().resolve_conj().resolve_neg().contiguous()


def flat(t: torch.Tensor) -> torch.Tensor:
    """The memory of a packed tensor as unisono takes it: one dimension of named elements, or of bytes."""
    t = t.detach()
    if t.is_complex():
        t = torch.view_as_real(t)
    t = t.as_strided((t.numel(),), (1,))  # one element may have any stride
    return t if t.dtype in NAMED else t.view(torch.uint8)


def scale(t: torch.Tensor) -> int:
    """How many of flat()'s elements one of the tensor's is."""
    return 2 if t.is_complex() else 1 if t.dtype in NAMED else t.element_size()


def adjoining(tensors: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """Packed tensors as one flat tensor that shares their memory, when they lie one behind the other in one storage."""
    first, end = tensors[0], tensors[0].storage_offset()
    for t in tensors:
        together = t.untyped_storage().data_ptr() == first.untyped_storage().data_ptr() and t.storage_offset() == end
        if not together or not is_packed(t):
            return None
        end += t.numel()
    return first.detach().as_strided((end - first.storage_offset(),), (1,), first.storage_offset())


def stacked(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Tensors of one shape as one with a dimension more."""
    together = adjoining(tensors)
    return torch.stack(list(tensors)) if together is None else together.view(len(tensors), *tensors[0].shape)


def joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """One behind the other: adjoining(), or a copy."""
    together = adjoining(tensors)
    if together is not None:
        return together
    parts = [packed(t).reshape(-1) for t in tensors]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def settle_into(tensors: Sequence[torch.Tensor], landing: torch.Tensor) -> None:
    """Copy from joined memory into the tensors, where they are not that memory."""
    offset = 0
    for t in tensors:
        part = landing.reshape(-1).narrow(0, offset, t.numel())
        offset += t.numel()
        if t.numel() and (part.data_ptr() != t.data_ptr() or not is_packed(t)):
            with torch.inference_mode(t.is_inference()), torch.no_grad():
                t.copy_(part.view(t.shape))


def name_of(op: Any) -> str:
    """ "SUM", ...; torch compares its operations in C++ alone."""
    for name in OPS:
        if op == getattr(dist.ReduceOp, name):
            return name
    return str(op)


def reduction(t: torch.Tensor, op: Any, what: str) -> str:
    """unisono's name of the operation on t's elements; it is refused where it is not defined."""
    name = name_of(op)
    check(name in OPS, what, ": unknown reduction ", name)
    if t.is_complex():
        good = name in ("SUM", "AVG", "PREMUL_SUM")
        check(
            good, what, ": ", name, " is not defined for complex numbers (", t.dtype, "); SUM, AVG and PREMUL_SUM are"
        )
    else:
        movable = "can be moved but not reduced; convert them first, to bfloat16 for example"
        check(t.dtype in NAMED, what, ": elements of type ", t.dtype, " ", movable)
        why = {"AVG": "convert it to numbers", "PREMUL_SUM": "use SUM and multiply, or floating-point elements"}
        bad = name in BITS and t.dtype in FLOATING
        bad |= name == "AVG" and t.dtype == torch.bool
        bad |= name == "PREMUL_SUM" and t.dtype not in FLOATING
        instead = why.get(name, "it is for integers and bool")
        kind = CALLED.get(t.dtype, t.dtype)
        check(not bad, what, ": ", name, " is not defined for ", kind, "; ", instead)
    return "sum" if name == "PREMUL_SUM" else name.lower()


def prepared(t: torch.Tensor, op: Any, what: str) -> torch.Tensor:
    """What is sent: packed; for PREMUL_SUM times the factor, in new memory."""
    if name_of(op) != "PREMUL_SUM":
        return packed(t)
    factor = op.__getstate__()[1]
    check(factor is not None, what, ": PREMUL_SUM without a factor; torch.distributed._make_nccl_premul_sum makes it")
    if isinstance(factor, torch.Tensor):
        factor = factor.detach().to(t.dtype).reshape(())
    return packed(t.detach() * factor)

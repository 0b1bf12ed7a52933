"""The small types of torch.distributed: how elements are combined, the back end's name, arrays."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeAlias

from unisono import _core
from unisono.errors import InvalidArgument

Tensor: TypeAlias = Any
"""A NumPy array, a torch CPU tensor, or anything else with the buffer protocol or DLPack."""


class ReduceOp(Enum):
    """How elements are combined. SUM is the default everywhere: values grow with the number of ranks.

    AVG is the sum divided by the number of ranks, of floating-point and complex numbers; BAND, BOR and BXOR are for
    integers and bool.
    """

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"

    __hash__ = object.__hash__  # Enum's own is a Python function, and this is asked in every call


_CORE = {op: getattr(_core.ReduceOp, op.value) for op in ReduceOp}


def bare(tensor: Any) -> Any:
    """The same memory without torch's record of gradients, which it keeps of computations alone; also of a list."""
    if isinstance(tensor, list):
        return [bare(each) for each in tensor]
    return tensor.detach() if getattr(tensor, "requires_grad", False) is True else tensor


def core_op(op: Any, tensor: Tensor, operation: str) -> _core.ReduceOp:
    """The library's name for `op`. Raises InvalidArgument where `tensor` cannot be combined so."""
    if not isinstance(tensor, list | tuple) and not hasattr(tensor, "__setitem__"):
        raise TypeError(
            f"{operation}: Expected an array, to which the result is written, but got {type(tensor).__name__} instead. "
            "Nothing was sent"
        )
    known = _CORE.get(op)
    if known is None:
        # Torch's ReduceOp, unisono's.
        name = op if isinstance(op, str) else getattr(op, "name", None)
        known = getattr(_core.ReduceOp, str(name).lower(), None)
        if not isinstance(known, _core.ReduceOp):
            names = ", ".join(f"ReduceOp.{op.name}" for op in ReduceOp)
            raise InvalidArgument(f"{operation}: op is {op!r}; give one of {names}. Nothing was sent")
    if known is _core.ReduceOp.avg and not _has_fractions(tensor):
        raise InvalidArgument(
            f"{operation}: ReduceOp.AVG of integers has no exact result; use ReduceOp.SUM and divide, or convert to a "
            "floating-point type first. Nothing was sent"
        )
    return known


def _has_fractions(tensor: Tensor) -> bool:
    first = tensor[0] if isinstance(tensor, list | tuple) and tensor else tensor
    if hasattr(first, "is_floating_point"):  # torch
        return bool(first.is_floating_point() or first.is_complex())
    kind = getattr(getattr(first, "dtype", None), "kind", None)
    if kind is None and isinstance(first, memoryview):
        kind = "f" if first.format in ("e", "f", "d") else "i"
    if kind is None:
        kind = "f" if getattr(first, "typecode", "d") in ("f", "d") else "i"
    return str(kind) not in "iub"


class Backend(str):
    """The name of a back end. Here there is one, "unisono", whatever name was asked for."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    UNISONO = "unisono"

    __slots__ = ()

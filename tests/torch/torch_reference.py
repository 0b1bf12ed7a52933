"""What collectives must give, computed by each rank for itself: inputs are functions of the rank."""

# mypy: disable-error-code="attr-defined"

from __future__ import annotations

import functools
import operator
from typing import Any

import torch
import torch.distributed as dist

REALS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64]
INTEGERS += [torch.uint8, torch.uint16, torch.uint32, torch.uint64]
COMPLEX = [torch.complex64, torch.complex128]
OTHERS = [torch.bool, torch.float8_e4m3fn, torch.float8_e5m2, torch.complex32]
ALL = [*REALS, *INTEGERS, *COMPLEX, *OTHERS]
SHAPES: list[tuple[int, ...]] = [(), (0,), (5,), (3, 4), (0, 7), (70_001,)]

COMMON = ["SUM", "PRODUCT", "MIN", "MAX"]
BITS = ["BAND", "BOR", "BXOR"]


def ops(dtype: torch.dtype) -> list[str]:
    """The names of the operations that are defined."""
    if dtype in REALS:
        return [*COMMON, "AVG", "PREMUL_SUM"]
    if dtype in COMPLEX:
        return ["SUM", "AVG", "PREMUL_SUM"]
    return [*COMMON, *BITS] if dtype == torch.bool else [*COMMON, *BITS, "AVG"]


def reduce_op(name: str) -> Any:
    """torch's operation; PREMUL_SUM multiplies by 2."""
    return dist._make_nccl_premul_sum(2.0) if name == "PREMUL_SUM" else getattr(dist.ReduceOp, name)


def make(dtype: torch.dtype, shape: tuple[int, ...], rank: int, seed: int = 0) -> torch.Tensor:
    """Rank's input: 1, 2 or 4, so that sums, products and halves are exact in every type."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    exponents = torch.randint(0, 3, shape, generator=generator)
    if dtype == torch.bool:
        return exponents > 0
    values = (2.0**exponents).to(torch.float64)
    if dtype.is_complex:
        wide = torch.complex(values, -values.flip(0) if values.dim() else -values)
        return wide.to(dtype)
    return values.to(dtype)


def wide(t: torch.Tensor) -> torch.Tensor:
    """In a type in which everything is exact, and which has all operations."""
    if t.dtype.is_complex:
        return t.to(torch.complex128)
    return t.to(torch.float64) if t.dtype.is_floating_point else t.to(torch.int64)


def reduced(name: str, inputs: list[torch.Tensor]) -> torch.Tensor:
    """The reduction of all inputs."""
    dtype, parts = inputs[0].dtype, [wide(t) for t in inputs]
    if dtype == torch.bool:
        logical = {"SUM": torch.logical_or, "MAX": torch.logical_or, "BOR": torch.logical_or, "BXOR": torch.logical_xor}
        return functools.reduce(logical.get(name, torch.logical_and), inputs)
    if name == "AVG" and not dtype.is_floating_point and not dtype.is_complex:
        return torch.div(sum(parts[1:], parts[0]), len(parts), rounding_mode="trunc").to(dtype)
    if name == "AVG":
        return (sum(parts[1:], parts[0]) / len(parts)).to(dtype)
    if name == "PREMUL_SUM":
        parts, name = [2 * p for p in parts], "SUM"
    folds: dict[str, Any] = {"SUM": operator.add, "PRODUCT": operator.mul, "MIN": torch.minimum, "MAX": torch.maximum}
    folds |= {"BAND": operator.and_, "BOR": operator.or_, "BXOR": operator.xor}
    return functools.reduce(folds[name], parts).to(dtype)


def bits(t: torch.Tensor) -> bytes:
    """Elements in logical order, as bytes: equal for types that cannot be compared, too."""
    flat = t.detach().resolve_conj().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).tolist()) if flat.numel() < 4096 else flat.view(torch.uint8).numpy().tobytes()


def same(actual: torch.Tensor, expected: torch.Tensor, *what: object) -> None:
    """Fail unless they are equal, bit for bit."""
    note = " ".join(map(str, what))
    assert actual.shape == expected.shape, f"{note}: {actual.shape} instead of {expected.shape}"
    assert actual.dtype == expected.dtype, f"{note}: {actual.dtype} instead of {expected.dtype}"
    if bits(actual) != bits(expected):
        raise AssertionError(f"{note}: {actual.reshape(-1)[:8]} instead of {expected.reshape(-1)[:8]}")


def close(actual: torch.Tensor, expected: torch.Tensor, *what: object) -> None:
    """Fail unless they are equal, or for a mean (which has one rounding) next to each other."""
    if "AVG" not in what or not (expected.dtype.is_floating_point or expected.dtype.is_complex):
        return same(actual, expected, *what)
    torch.testing.assert_close(wide(actual), wide(expected), rtol=4e-3 if actual.itemsize == 2 else 1e-6, atol=0)
    return None

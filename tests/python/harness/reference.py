"""What collectives must give, in NumPy. Tests and ranks use it alike."""

from __future__ import annotations

from typing import Any

import numpy as np

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, *INTEGERS, "bool")
# Empty, one, few, not a multiple of anything, several slices.
SIZES = (0, 1, 3, 257, 300_007)


def ops(dtype: str) -> tuple[str, ...]:
    """The operations that make sense for a dtype."""
    common = ("sum", "product", "min", "max")
    if dtype == "bool":
        return (*common, "band", "bor", "bxor")
    return (*common, "avg") if dtype in FLOATS else (*common, "avg", "band", "bor", "bxor")


def make(dtype: str, count: int, rank: int, seed: int = 0) -> np.ndarray:
    """Rank's input, the same wherever it is asked for. Sums and products of a few such are exact in every dtype."""
    rng = np.random.default_rng((seed, rank, count))
    if dtype == "bool":
        return rng.integers(0, 2, count).astype(bool)
    if dtype.startswith("u"):
        return rng.integers(1, 4, count).astype(dtype)
    return rng.choice([-2, -1, 1, 2], count).astype(dtype)


def combine(op: str, inputs: list[np.ndarray]) -> Any:
    """The result of a reduction."""
    stack = np.stack(inputs)
    if stack.dtype == bool:
        logical: dict[str, Any] = {
            "sum": np.logical_or,
            "max": np.logical_or,
            "bor": np.logical_or,
            "bxor": np.logical_xor,
        }
        return logical.get(op, np.logical_and).reduce(stack, axis=0)
    fold: dict[str, Any] = {"product": np.multiply, "min": np.minimum, "max": np.maximum}
    fold |= {"band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor}
    if op == "avg" and stack.dtype.kind != "f":  # the quotient is truncated, which NumPy's // is not
        return np.trunc(stack.astype(np.float64).sum(axis=0) / len(inputs)).astype(stack.dtype)
    if op == "avg":
        return (stack.astype(np.float64).sum(axis=0) / len(inputs)).astype(stack.dtype)
    return fold.get(op, np.add).reduce(stack, axis=0, dtype=stack.dtype)


def check(actual: np.ndarray, expected: np.ndarray, *what: object) -> None:
    """Fail unless they are equal; in floating point a mean may be rounded differently."""
    note = " ".join(str(part) for part in what)
    assert actual.dtype == expected.dtype, f"{note}: {actual.dtype} instead of {expected.dtype}"
    if "avg" in what and expected.dtype.kind == "f":
        np.testing.assert_allclose(actual, expected, rtol=2 * np.finfo(expected.dtype).eps, atol=0, err_msg=note)
    else:
        np.testing.assert_array_equal(actual, expected, err_msg=note)


def parts(total: int, ranks: int, seed: int) -> list[int]:
    """A partition of `total` into uneven counts, some of them 0."""
    rng = np.random.default_rng((total, ranks, seed))
    cuts = np.sort(rng.integers(0, total + 1, ranks - 1))
    return [int(count) for count in np.diff([0, *cuts, total])]

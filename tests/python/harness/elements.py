"""Elements that can only be moved, and arrays of them."""

from __future__ import annotations

from typing import Any

import numpy

RECORD = numpy.dtype([("OBJECT_ID", "i4"), ("position", "f4", (3,)), ("nested", [("O", "i2"), ("name", "S3")])])
MOVED: list[Any] = [
    "c8",
    "c16",
    "g",
    "S8",
    "U5",
    "V3",
    "M8[s]",
    "m8[ns]",
    ">i4",
    ">c16",
    RECORD,
    numpy.dtype({"names": ["a", "b"], "formats": ["i4", "u1"], "offsets": [4, 0], "itemsize": 13}),
    numpy.dtype({"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 2]}),
    numpy.dtype([(("a title", "O"), "f8")]),
    numpy.dtype([("a:b", "u1"), ("c", "f8")], align=True),
]


def filled(dtype: Any, count: int, seed: int) -> Any:
    """Random bytes, as elements."""
    dtype = numpy.dtype(dtype)
    data = numpy.random.default_rng(seed).integers(0, 100, count * dtype.itemsize, dtype="u1")
    return data.view(dtype)


def same(a: Any, b: Any) -> bool:
    return bool(a.dtype == b.dtype and a.tobytes() == b.tobytes())


def joined(parts: list[Any]) -> Any:
    """As numpy.concatenate, which would change the byte order."""
    memory = bytearray(b"".join(part.tobytes() for part in parts))
    return numpy.ndarray(sum(part.size for part in parts), parts[0].dtype, memory)

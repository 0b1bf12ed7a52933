"""What the tests of unisono.distributed use on their ranks: the module, joined, and arrays of two kinds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy


@contextlib.contextmanager
def joined(world: Any, place: str) -> Iterator[Any]:
    """unisono.distributed, whose world is made of the ranks of `world`, which meet in a file of that name."""
    import unisono.distributed as dist

    dist.init_process_group(init_method=f"file://{place}", rank=world.rank, world_size=world.size)
    try:
        yield dist
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


class Kind:
    """Makes arrays of a library: numpy or torch."""

    def __init__(self, name: str) -> None:
        self.name = name

    def of(self, values: Any, dtype: str = "float32") -> Any:
        """An array with these values."""
        array = numpy.array(values, dtype=dtype)
        if self.name == "numpy":
            return array
        import torch

        return torch.from_numpy(array.copy()).reshape(array.shape)

    def zeros(self, *shape: int, dtype: str = "float32") -> Any:
        """An array of zeros."""
        return self.of(numpy.zeros(shape), dtype)


def values(array: Any) -> Any:
    """As Python's numbers."""
    return array.tolist()

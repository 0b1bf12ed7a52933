"""Ranks that run one function over "unisono", then over "gloo", in the same processes: whoever differs is to blame."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from hook_world import World

BACKENDS = ("unisono", "gloo")
Array = np.ndarray[Any, np.dtype[Any]]


def flat(tensors: Iterable[torch.Tensor]) -> Array:
    """All elements in one array of doubles; what a rank sends back to a test."""
    parts = [t.detach().to(torch.float64).reshape(-1) for t in tensors]
    return np.array(torch.cat(parts).numpy()) if parts else np.zeros(0)


def under(case: Callable[..., Any], backend: str, store: str, arguments: dict[str, Any]) -> Any:
    """Leave the default group, join a new one of that back end, run the case in it."""
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.destroy_process_group()
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=size)
    torch.manual_seed(0)
    return case(**arguments)


def told(call: Callable[[], object]) -> str:
    """The text of the exception that it must raise."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("nothing was raised")


def refused(what: Callable[..., Any], given: dict[str, Any]) -> str:
    """A case that ends by an exception on each rank."""
    return told(partial(what, **given))


class Pair:
    """`pair.run(backend, case, ...)`: what the case returned on each rank, in a default group of its own."""

    def __init__(self, size: int, folder: Path) -> None:
        self.size = size
        self._folder, self._world, self._made = folder, None, 0  # type: Path, World | None, int

    def run(self, backend: str, case: Callable[..., Any], **arguments: Any) -> list[Any]:
        """Results by rank. AssertionError with what ranks raised; then the ranks are started anew for the next case."""
        self._made += 1
        if self._world is None:
            home = self._folder / f"world{self._made}"
            home.mkdir()
            self._world = World(BACKENDS[0], self.size, home)
        store = str(self._folder / f"store{self._made}")
        try:
            return self._world.run(under, case=case, backend=backend, store=store, arguments=arguments)
        except AssertionError:
            self._world.kill()
            self._world = None
            raise

    def both(self, case: Callable[..., Any], **arguments: Any) -> tuple[list[Any], list[Any]]:
        """The same case over unisono, and over Gloo."""
        ours, theirs = (self.run(backend, case, **arguments) for backend in BACKENDS)
        return ours, theirs

    def told(self, backend: str, case: Callable[..., Any], **arguments: Any) -> list[str]:
        """The text of the exception that the case must raise, on each rank; the ranks go on."""
        return self.run(backend, refused, what=case, given=arguments)

    def close(self) -> None:
        """Let the ranks leave."""
        if self._world is not None:
            self._world.close()


def agree(ours: Any, theirs: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Fail unless both have the same shape of lists, tuples and dicts, and arrays that differ by rounding at most."""
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        ours, theirs = list(ours.values()), list(theirs.values())
    if isinstance(ours, list | tuple):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            agree(mine, other, rtol, atol)
    elif isinstance(ours, np.ndarray | float):
        np.testing.assert_allclose(ours, theirs, rtol, atol)
    else:
        assert ours == theirs

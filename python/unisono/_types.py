"""Names that the stub of the extension module uses."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from unisono._core import ReduceOp


class SupportsDLPack(Protocol):
    """An array that shows its memory through DLPack, as torch tensors do."""

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None) -> Any:
        """Return a capsule that describes the memory."""


Array: TypeAlias = "Buffer | SupportsDLPack"
"""Memory of numbers: a NumPy array, a torch CPU tensor, memoryview, array.array, bytearray."""

Parts: TypeAlias = "Array | Sequence[Array]"
"""A part for each rank: one array that has them one after the other, or a list of arrays."""

Op: TypeAlias = "ReduceOp | str"
"""How elements are combined: a ReduceOp, or its name."""

Seconds: TypeAlias = float | timedelta | None
"""A timeout; None: the group's."""

Counts: TypeAlias = Sequence[int] | None
"""Elements of each rank's part, where parts differ; None: all the same."""

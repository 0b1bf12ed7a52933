"""What the memory of an array is."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def is_shared(array: Any) -> bool:
    """Whether the middle of a NumPy array lies in memory that other processes share, as the system says."""
    at = array.ctypes.data + array.nbytes // 2
    for line in Path("/proc/self/maps").read_text().splitlines():
        area, access = line.split()[:2]
        begin, end = (int(a, 16) for a in area.split("-"))
        if begin <= at < end:
            return access.endswith("s")
    raise AssertionError("it lies nowhere")

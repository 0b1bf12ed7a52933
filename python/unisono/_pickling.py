"""Pickle, for objects that are more than numbers, text, containers and arrays; only where a program asked for it."""

from __future__ import annotations

import logging
import os
import pickle
from typing import Any

from unisono.errors import InvalidArgument

_log = logging.getLogger("unisono")
_told: set[int] = set()  # processes that have been told


def dumps(thing: object) -> bytes:
    """Pickle it. Raises InvalidArgument where UNISONO_PICKLE=0 forbids, and what pickle raises."""
    _require_permission()
    if os.getpid() not in _told:
        _told.add(os.getpid())
        kind = type(thing)
        _log.warning(
            "a %s.%s travels by pickle: the ranks that get it run what its sender chose (UNISONO_PICKLE=0 refuses)",
            kind.__module__,
            kind.__qualname__,
        )
    return pickle.dumps(thing)


def loads(data: bytes) -> Any:
    """Unpickle it. Raises InvalidArgument where UNISONO_PICKLE=0 forbids, and what pickle raises."""
    _require_permission()
    return pickle.loads(data)


def _require_permission() -> None:
    value = os.environ.get("UNISONO_PICKLE", "1")
    if value not in ("0", "1"):
        raise InvalidArgument(f"UNISONO_PICKLE is {value!r}; it must be 0 or 1")
    if value == "0" or os.environ.get("UNISONO_STRICT") == "1":
        why = "UNISONO_PICKLE=0" if value == "0" else "UNISONO_STRICT=1"
        raise InvalidArgument(
            f"{why} forbids pickle, which an object needs that is more than numbers, text, bytes, lists, dicts and "
            "arrays"
        )

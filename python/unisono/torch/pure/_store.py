"""torch's store as unisono's."""

# torch.distributed exports less to mypy than to its users.
# mypy: disable-error-code="attr-defined"

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from unisono import _core


class RememberingStore:
    """Passes everything on to torch's store, and remembers what this rank set: any thread."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._mine: dict[str, None] = {}
        self.ours = _core.make_foreign_store(self, "torch store")

    def set(self, key: str, value: bytes) -> None:
        """Torch's."""
        self._mine[key] = None
        self._store.set(key, value)

    def get(self, key: str) -> bytes:
        """Torch's."""
        found: bytes = self._store.get(key)
        return found

    def add(self, key: str, delta: int) -> int:
        """Torch's."""
        self._mine[key] = None
        return int(self._store.add(key, delta))

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        """Torch's."""
        self._mine[key] = None
        after: bytes = self._store.compare_set(key, expected, desired)
        return after

    def check(self, keys: list[str]) -> bool:
        """Torch's."""
        return bool(self._store.check(keys))

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        """Torch's."""
        self._store.wait(keys, timeout)

    def delete_key(self, key: str) -> bool:
        """Torch's."""
        return bool(self._store.delete_key(key))

    def forget(self) -> None:
        """Remove what this rank set, when everybody has read it: a later group over the store must not find it."""
        with contextlib.suppress(Exception):  # a store that cannot delete keeps it, as with Gloo
            for key in self._mine:
                self._store.delete_key(key)
        self._mine.clear()

    def on_this_host(self) -> bool:
        """Whether ranks can only be on this host, by what torch was told: it listens on a loopback address."""
        store = self._store
        while isinstance(store, dist.PrefixStore):
            store = store.underlying_store
        host = store.host if isinstance(store, dist.TCPStore) else ""
        return host in ("localhost", "::1") or host.startswith("127.")

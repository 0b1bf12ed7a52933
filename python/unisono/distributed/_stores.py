"""torch.distributed's stores over unisono's: small key-value services through which ranks find each other."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NoReturn

from unisono import _core
from unisono.errors import InvalidArgument

_PATIENCE = timedelta(seconds=300)


class Store:
    """What all stores have. Keys are strings up to 1 KiB, values bytes (or text) up to 8 MiB. Any thread may use it.

    Raises Timeout naming the keys that are missing, and SystemError when the server is lost: both are DistStoreError.
    """

    def __init__(self, core: _core.Store, timeout: timedelta = _PATIENCE) -> None:
        self.core = core
        """The unisono.Store behind it."""
        self._timeout = timeout

    @property
    def timeout(self) -> timedelta:
        """How long get() and wait() wait."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Change it."""
        self._timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Set `key`; replaces an older value."""
        self.core.set(key, _bytes(value))

    def get(self, key: str) -> bytes:
        """The value of `key`, waiting until somebody sets it."""
        return self.core.get(key, self._timeout)

    def add(self, key: str, amount: int) -> int:
        """Atomically add to an integer (absent counts as 0) and return the sum."""
        return self.core.add(key, amount)

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Set `key` if its value is the expected one, or if it is absent and "" is expected; the value after it.

        Where `key` is absent and something else is expected: returns what was expected, as torch does.
        """
        expected = _bytes(expected_value)
        return self.core.compare_set(key, expected, _bytes(desired_value)) or expected

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there, without waiting."""
        return self.core.check(list(keys))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are there."""
        self.core.wait(list(keys), self._timeout if timeout is None else timeout)

    def delete_key(self, key: str) -> bool:
        """Remove a key; whether it was there."""
        return self.core.erase(key)

    def append(self, key: str, value: str | bytes) -> None:
        """Atomically put `value` behind what `key` has (absent counts as nothing)."""
        more, known = _bytes(value), b""
        while True:
            after = self.core.compare_set(key, known, known + more)
            if after == known + more:
                return
            known = after

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of several keys, waiting until all are there."""
        self.wait(keys)
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Set several keys, one after the other."""
        if len(keys) != len(values):
            raise InvalidArgument(f"Store.multi_set: {len(keys)} keys and {len(values)} values")
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Whether append, multi_get and multi_set are there: yes."""
        return True

    def num_keys(self) -> int:
        """Raises NotImplementedError: unisono's stores do not count their keys."""
        _refuse("num_keys", "keep a count of your own with add()")

    def list_keys(self) -> list[str]:
        """Raises NotImplementedError: unisono's stores do not list their keys."""
        _refuse("list_keys", "keep a list of your own with append()")

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Raises NotImplementedError: unisono's stores have no queues."""
        _refuse("queue_push", "number the entries with add(), and set() one key for each")

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Raises NotImplementedError: unisono's stores have no queues."""
        _refuse("queue_pop", "number the entries with add(), and get() one key for each")

    def queue_len(self, key: str) -> int:
        """Raises NotImplementedError: unisono's stores have no queues."""
        _refuse("queue_len", "keep a count of your own with add()")

    def __repr__(self) -> str:
        return f"<unisono.distributed.{type(self).__name__}: {self.core.describe()}>"


class HashStore(Store):
    """A store inside this process, for ranks that are threads."""

    def __init__(self) -> None:
        super().__init__(_core.make_memory_store())


class FileStore(Store):
    """A store in a file that all ranks can reach (also over NFS); it is created when absent, and never removed."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__(_core.make_file_store(str(file_name)))
        self.path = str(file_name)
        """The file's name."""


class PrefixStore(Store):
    """All keys of another store under a prefix."""

    def __init__(self, prefix: str, store: Any) -> None:
        self.underlying_store = store
        """The other store."""
        patience = getattr(store, "timeout", _PATIENCE)
        super().__init__(_core.make_prefix_store(prefix, core_store(store)), patience)


def core_store(store: Any) -> _core.Store:
    """The library's store in or behind one of these, of unisono's or of torch's. Raises InvalidArgument."""
    if isinstance(store, Store):
        return store.core
    if isinstance(store, _core.Store):
        return store
    if all(hasattr(store, name) for name in ("set", "get", "add", "compare_set", "check", "wait", "delete_key")):
        return _core.make_foreign_store(store, type(store).__name__)
    raise InvalidArgument(
        f"store is a {type(store).__name__}; give a TCPStore, FileStore, HashStore or PrefixStore of "
        "unisono.distributed"
    )


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _refuse(method: str, remedy: str) -> NoReturn:
    raise NotImplementedError(f"Store.{method}: unisono's stores do not have it; {remedy}")

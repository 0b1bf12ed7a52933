"""torch.distributed's stores over unisono's: small key-value services through which ranks find each other."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NoReturn

from unisono import _core
from unisono.errors import Error, InvalidArgument

_PATIENCE = timedelta(seconds=300)


class QueueEmptyError(Error):
    """A queue that should have had a value is empty."""


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
        # One after the other, by tickets: compare_set() does not tell whose equal value it was.
        ticket = self.add(f"{key}/append/ticket", 1)
        before = f"{key}/append/done/{ticket - 1}"
        if ticket > 1:
            self.wait([before])
        known = self.get(key) if self.check([key]) else b""
        self.set(key, known + _bytes(value))
        self.set(f"{key}/append/done/{ticket}", b"1")
        self.delete_key(before)

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
        """Put a value at the end of a queue."""
        number = self.add(f"{key}/queue/pushed", 1)
        self.set(f"{key}/queue/{number}", value)

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value of a queue, waiting for one. Raises QueueEmptyError without `block`."""
        taken = f"{key}/queue/taken"
        while True:
            number = self.add(taken, 0) + 1
            entry = f"{key}/queue/{number}"
            if not block and not self.check([entry]):
                raise QueueEmptyError(f"Store.queue_pop: queue {key!r} is empty")
            self.wait([entry])
            if self.add(f"{entry}/claim", 1) == 1:  # nobody else takes it
                value = self.get(entry)
                self.add(taken, 1)
                self.set(entry, b"")  # others may still wait for it
                return value

    def queue_len(self, key: str) -> int:
        """How many values a queue has."""
        return self.add(f"{key}/queue/pushed", 0) - self.add(f"{key}/queue/taken", 0)

    def __repr__(self) -> str:
        return f"<unisono.distributed.{type(self).__name__}: {self.core.describe()}>"


class TCPStore(Store):
    """A store that one process (is_master) serves at an address, and the others connect to.

    world_size: with wait_for_workers the constructor returns when so many have come; it may be None.
    port: 0 on the master has one chosen (see `port`). timeout: of connecting, get() and wait().
    At a loopback address only this user's processes get in; between hosts the job's secret is needed
    (docs/security.md).
    multi_tenant, master_listen_fd and use_libuv are torch's own; nothing depends on them.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = _PATIENCE,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        if port == 0 and not is_master:
            raise InvalidArgument("TCPStore: port 0 is for the master, which has one chosen; give the others its port")
        self.host = host_name
        """The address."""
        self.port = port or _free_port()
        """The port there."""
        host = f"[{host_name}]" if ":" in host_name else host_name
        super().__init__(_core.make_tcp_store(f"{host}:{self.port}", serve=is_master, timeout=timeout), timeout)
        if wait_for_workers and world_size is not None and world_size > 0:
            if self.add("init/workers", 1) == world_size:
                self.set("init/complete", b"1")
            self.wait(["init/complete"])


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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _refuse(method: str, remedy: str) -> NoReturn:
    raise NotImplementedError(f"Store.{method}: unisono's stores do not have it; {remedy}")

"""What the groups of one process share. Python's side of bindings/torch/world.h."""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from unisono import _core, errors
from unisono.torch.pure._store import RememberingStore

if TYPE_CHECKING:
    from unisono.torch.pure._group import PythonGroup


PATIENCE = 5.0
"""Seconds: for what is in flight when the process ends."""


class World:
    """A context, which lives as long as a group within it does."""

    def __init__(self, context: _core.Context) -> None:
        self.context, self.owner = context, os.getpid()


class Worlds:
    """The default group's world, for the groups within it; and all groups, to leave them. One a process."""

    def __init__(self) -> None:
        self._current: Callable[[], World | None] = lambda: None
        self._groups: weakref.WeakSet[PythonGroup] = weakref.WeakSet()

    def share(self, store: RememberingStore, rank: int, size: int, global_rank: int, seconds: float) -> World:
        """The default group's; a new one when there is none. global_rank is `rank` in the job's numbering."""
        world = self._current()
        if world is not None and world.owner == os.getpid():
            return world
        return _make(store, rank, size, global_rank, seconds)

    def found(self, store: RememberingStore, rank: int, size: int, seconds: float) -> World:
        """A new world for the default group. Blocks until all ranks have come."""
        made = _make(store, rank, size, rank, seconds)
        self._current = weakref.ref(made)
        return made

    def retire(self, world: World) -> None:
        """The default group was destroyed: later groups do not belong to it."""
        if self._current() is world:
            self._current = lambda: None

    def enlist(self, group: PythonGroup) -> None:
        """Remember a group for leave()."""
        self._groups.add(group)

    def groups(self) -> list[PythonGroup]:
        """Those that still exist."""
        return list(self._groups)

    def flight_record(self) -> dict[str, Any]:
        """Not here: it is kept by the C++ part."""
        raise NotImplementedError(
            "the flight record is kept by the compiled back end, and this process uses the one in Python: install a "
            "C++ compiler (apt-get install g++), and run: python -m unisono.torch._build"
        )

    def forked(self) -> None:
        """Called after a fork, in the parent: nothing to do, unisono sees to its memory itself."""

    def leave(self, reason: str | None) -> None:
        """The process ends without having destroyed its groups: the others get what is on its way, or the reason."""
        until = time.monotonic() + (0.0 if reason else PATIENCE)
        for group in self.groups():
            with contextlib.suppress(errors.Error):
                group.leave(reason, max(until - time.monotonic(), 0.0))


def _make(store: RememberingStore, rank: int, size: int, global_rank: int, seconds: float) -> World:
    try:
        config = _core.settings_from_env()
    except errors.Error as error:
        _core.decline_secret(store.ours, rank, size, str(error))
        raise
    config.rank, config.size = global_rank, size
    config.timeout = seconds
    config.init_timeout = min(config.init_timeout, seconds)
    if not config.secret:
        everybody = os.environ.get("WORLD_SIZE")
        one_host = store.on_this_host() or (everybody is not None and os.environ.get("LOCAL_WORLD_SIZE") == everybody)
        config.secret = _core.agree_on_secret(
            store.ours,
            rank,
            size,
            timeout=config.init_timeout,
            one_host=one_host,
            strict=config.strict,
            allow_insecure=config.allow_insecure,
        )
    return World(_core.Context(config))

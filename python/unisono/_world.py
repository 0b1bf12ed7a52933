"""The world of this process: joined once, left when the interpreter ends."""

from __future__ import annotations

import atexit
import contextlib
import sys
from datetime import timedelta

from unisono import _core
from unisono.errors import Error, InvalidArgument

# A process is one rank of one world, so this is a property of the process, as its working directory is.
_world: _core.Group | None = None
# Of worlds that could not be joined: the interpreter's end waits a moment for them.
latecomers = _core.Latecomers()
atexit.register(latecomers.wait)


def init(
    *,
    rank: int | None = None,
    size: int | None = None,
    init_method: str | None = None,
    store: _core.Store | None = None,
    timeout: float | timedelta | None = None,
    init_timeout: float | timedelta | None = None,
    transport: str | None = None,
    algorithm: str | None = None,
    secret: str | None = None,
    job: str | None = None,
    config: _core.Config | None = None,
) -> _core.Group:
    """Join the world and return it: a Group of all ranks. Once a process; blocks until all ranks are there.

    What is not given comes from the environment, as `unisono run`, torchrun, Slurm, Open MPI or MPICH set it. With no
    launcher and no arguments the world has one rank, this process.

    rank, size: which one this process is, of how many. Give both or neither.
    init_method: where ranks meet: tcp://HOST:PORT (rank 0 serves it), file://PATH, env:// (MASTER_ADDR, MASTER_PORT).
    store: or through this store.
    timeout: of each operation; init_timeout: of joining (seconds, or a timedelta).
    transport: shm or tcp, to force one. algorithm: appended to the selection table, as UNISONO_ALGORITHM.
    secret: what every connection must prove to know, hexadecimal. job: a name, so that strays of another do not join.
    config: all settings at once, instead of the environment; other arguments still win.

    Raises InvalidArgument (also when called a second time), Timeout naming the ranks that are missing, RankFailure
    naming one that died or failed meanwhile, SystemError (a port in use, an unreachable address), AuthenticationError.
    """
    global _world
    if (known := joined()) is not None:
        raise InvalidArgument(
            f"init: this process has joined a world already ({known!r}); use that Group, or destroy() it first"
        )
    if (rank is None) != (size is None):
        given, absent = ("rank", "size") if size is None else ("size", "rank")
        raise InvalidArgument(
            f"init: {given} was given without {absent}; give both, or neither to take both from the launcher"
        )
    if store is not None and init_method is not None:
        raise InvalidArgument("init: both store and init_method were given; ranks meet in one place")
    settings = _core.Config.from_env() if config is None else config
    overrides = {
        "rank": rank,
        "size": size,
        "init_method": init_method,
        "timeout": timeout,
        "init_timeout": init_timeout,
        "transport": transport,
        "algorithm": algorithm,
        "secret": secret,
        "job": job,
    }
    for name, value in overrides.items():
        if value is not None:
            setattr(settings, name, value)
    if store is None:
        world = _core.init(settings, latecomers)
    else:
        world = _core.Context(settings).create_group(store, settings.rank, settings.size)
    if _world is None:
        atexit.register(_leave)
    _world = world
    return world


def joined() -> _core.Group | None:
    """The world that init() returned, until it is destroyed; None in a forked child."""
    return _world if _world is not None and _world.made_here and not _world.destroyed else None


def _leave() -> None:
    if _world is not None:
        leave(_world)


def leave(world: _core.Group) -> None:
    """Say goodbye; or, when an uncaught exception ends the program, tell the other ranks rather than let them wait."""
    if world.destroyed or not world.made_here:  # a forked child leaves its parent's world alone
        return
    # Set by the interpreter when it prints an uncaught exception; a person at a prompt has seen and survived it.
    error = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
    with contextlib.suppress(Error):
        if error is not None:
            world.abort(f"rank {world.rank} ended with {type(error).__name__}: {error}")
        world.destroy()

"""Where the ranks of init_process_group() meet."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import parse_qs, urlsplit

from unisono import _core, _world
from unisono.distributed._stores import core_store
from unisono.errors import InvalidArgument

# How often this process has met others in a file or a store: keys of a world that is gone stay
# there.
_met: dict[str, int] = {}


def join(init_method: str | None, store: Any, rank: int, size: int, timeout: float | None) -> _core.Group:
    """Join the world. rank, size: -1 when they are not given. Raises InvalidArgument, Timeout, SystemError."""
    if store is not None:
        if init_method is not None:
            raise InvalidArgument("init_process_group: Cannot specify both init_method and store.")
        if size <= 0 or rank < 0:
            raise InvalidArgument("init_process_group: with store, both rank and world_size are needed")
        return _join_through(store, rank, size, timeout)
    method, rank, size = _read_query(init_method or "env://", rank, size)
    settings = _settings_for(method, rank, size)
    _set_timeouts(settings, timeout)
    if _must_agree(settings):
        return _join_in(_core.open_unguarded_store(settings), "unisono", settings)
    return _core.init(settings, _world.latecomers) if method != "env://" else _the_one_world(settings)


def _must_agree(settings: _core.Config) -> bool:
    """Whether ranks meet on a network without a secret. As under torch they then agree on one, with a warning."""
    method = settings.init_method
    host = os.environ.get("MASTER_ADDR") if method == "env://" else urlsplit(method).hostname
    return (
        method.startswith(("tcp://", "env://"))
        and settings.size > 1
        and settings.local_size != settings.size
        and not (settings.secret or settings.allow_insecure or settings.strict)
        and host not in (None, "", "localhost", "::1")
        and not str(host).startswith("127.")
    )


def _the_one_world(settings: _core.Config) -> _core.Group:
    """The world of unisono.init(), which may be there already."""
    known = _world.joined()
    if known is None:
        return _world.init(config=settings)
    if (known.rank, known.size) != (settings.rank, settings.size):
        raise InvalidArgument(
            f"init_process_group: this process is to be rank {settings.rank} of {settings.size}, and has joined "
            f"{known!r} by unisono.init(); destroy() that first"
        )
    return known


def _read_query(method: str, rank: int, size: int) -> tuple[str, int, int]:
    """Take rank and world_size from behind a question mark; arguments win, as torch has it."""
    parts = urlsplit(method)
    if not parts.query:
        return method, rank, size
    query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    try:
        found = int(query.pop("rank", rank)), int(query.pop("world_size", size))
    except ValueError as error:
        raise InvalidArgument(f"init_process_group: init_method {method!r}: {error}") from None
    if query:
        raise InvalidArgument(
            f"init_process_group: init_method {method!r} has {', '.join(query)} behind the question mark; only rank "
            "and world_size are known"
        )
    return method.split("?")[0], rank if rank >= 0 else found[0], size if size > 0 else found[1]


def _settings_for(method: str, rank: int, size: int) -> _core.Config:
    if method != "env://":
        if rank < 0 or size <= 0:
            raise InvalidArgument(f"init_process_group: init_method {method!r} needs rank and world_size as well")
        settings = _core.settings_from_env()
        settings.rank, settings.size, settings.init_method = rank, size, method
        if method.startswith("file://"):
            settings.job += _again(method)
        return settings
    launched = _core.Config.from_env()
    if launched.launcher != "none" and rank in (-1, launched.rank) and size in (-1, launched.size):
        return launched
    rank, size = _from_environment("RANK", rank), _from_environment("WORLD_SIZE", size)
    settings = _core.settings_from_env()
    settings.rank, settings.size, settings.init_method = rank, size, method
    return settings


def _from_environment(name: str, given: int) -> int:
    if given >= 0:
        return given
    text = os.environ.get(name)
    if text is None:
        raise InvalidArgument(
            f"init_process_group: Error initializing using env:// rendezvous: environment variable {name} expected, "
            f"but not set. Start the program with `unisono run` or torchrun, or give {name.lower()} as an argument"
        )
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(f"init_process_group: {name} is {text!r}; it must be an integer") from None


def _join_through(store: Any, rank: int, size: int, timeout: float | None) -> _core.Group:
    settings = _core.settings_from_env()
    settings.rank, settings.size = rank, size
    _set_timeouts(settings, timeout)
    place = core_store(store)
    return _join_in(place, f"unisono{_again(place.describe())}", settings)


def _join_in(place: _core.Store, prefix: str, settings: _core.Config) -> _core.Group:
    rank, size = settings.rank, settings.size
    inner = _core.make_prefix_store(prefix, place)
    if not settings.secret and size > 1:
        settings.secret = _core.agree_on_secret(
            inner,
            rank,
            size,
            timeout=settings.init_timeout,
            strict=settings.strict,
            allow_insecure=settings.allow_insecure,
        )
    return _core.Context(settings).create_group(inner, rank, size)


def _set_timeouts(settings: _core.Config, timeout: float | None) -> None:
    if timeout is None:
        return
    settings.timeout = timeout
    settings.init_timeout = min(settings.init_timeout, timeout)


def _again(where: str) -> str:
    """Tell this world from those that met in the same place before: nothing at first, then #1, #2 ..."""
    count = _met.get(where, 0)
    _met[where] = count + 1
    return f"#{count}" if count else ""

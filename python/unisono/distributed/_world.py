"""Joining and leaving: init_process_group, destroy_process_group, and what is known before and between."""

from __future__ import annotations

import atexit
import logging
import os
from datetime import timedelta
from typing import Any

from unisono._world import leave
from unisono.distributed._group import (
    AnyGroup,
    ProcessGroup,
    default_group,
    is_outside,
    registry,
    seconds_of,
)
from unisono.distributed._joining import join
from unisono.distributed._types import Backend
from unisono.errors import InvalidArgument

log = logging.getLogger("unisono.distributed")

default_pg_timeout = timedelta(minutes=30)


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Join the world: all ranks call it, and it blocks until they have. Programs call it once, before all else.

    backend: any name; it is unisono that runs, and a log line says so where another name was given.
    init_method: where ranks meet: env:// (the default: as `unisono run`, torchrun, Slurm or the variables RANK,
    WORLD_SIZE, MASTER_ADDR and MASTER_PORT say), tcp://HOST:PORT (rank 0 serves it), file://PATH. With
    ?rank=0&world_size=2 behind it, or with the arguments rank and world_size.
    store: or in this store, with rank and world_size.
    timeout: of each operation, and of joining where it is shorter than five minutes.
    group_name, pg_options, device_id: as torch has them; nothing depends on them here.

    Raises InvalidArgument (a ValueError: a second call, arguments that make no sense, no launcher), Timeout naming the
    ranks that are missing, SystemError (a port in use, an unreachable address), AuthenticationError.
    """
    if registry.world is not None:
        raise InvalidArgument("trying to initialize the default process group twice!")
    _require_main_memory(device_id)
    limit = seconds_of(timeout, "init_process_group")
    core = join(init_method, store, rank, world_size, limit)
    if backend is not None and str(backend).lower() != Backend.UNISONO and core.rank == 0:
        log.warning('init_process_group: the back end is "unisono", not "%s": this is unisono.distributed', backend)
    if pg_options is not None and core.rank == 0:
        log.warning("init_process_group: pg_options is ignored; unisono takes its settings from the environment")
    world = ProcessGroup(core, range(core.size), "default_pg", limit)
    registry.default, registry.groups = world, [world]


def destroy_process_group(group: AnyGroup = None) -> None:
    """Finish what is in flight on a group, and leave it; by default all groups. init_process_group() may follow.

    Ranks that still need this one in the group get RankFailure at once. What was sent before arrives.
    """
    if is_outside(group):
        return
    world = default_group()
    chosen = world if group is None else group
    if not isinstance(chosen, ProcessGroup) or chosen not in registry.groups:
        raise InvalidArgument("Invalid process group specified")
    if chosen is not world:
        registry.groups.remove(chosen)
        chosen.shutdown()
        return
    groups, registry.groups, registry.default = registry.groups, [], None
    for each in reversed(groups):
        each.shutdown()


@atexit.register
def _leave() -> None:
    if registry.world is not None:
        leave(registry.world.core)


def is_initialized() -> bool:
    """Whether this process is in a world: between init_process_group() and destroy_process_group()."""
    return registry.world is not None


def is_available() -> bool:
    """Whether this module can be used: always."""
    return True


def is_torchelastic_launched() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """This process's number among those on its host, as the launcher says in LOCAL_RANK."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment: start with `unisono run` or torchrun, or give fallback_rank"
    )


def get_backend(group: AnyGroup = None) -> Backend:
    """The back end's name: "unisono"."""
    if is_outside(group):
        raise InvalidArgument("get_backend: Invalid process group specified")
    default_group()
    return Backend(Backend.UNISONO)


def get_backend_config(group: AnyGroup = None) -> str:
    """Which back end serves which device."""
    return f"cpu:{get_backend(group)}"


def _require_main_memory(device: Any) -> None:
    kind = getattr(device, "type", None) or (device if isinstance(device, int) else "cpu")
    if str(kind) != "cpu":
        raise InvalidArgument(
            f"init_process_group: device_id is {device!r}; unisono.distributed works on arrays in main "
            "memory: leave it out"
        )

"""Process groups, and the one that this process belongs to."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeAlias

from unisono import _core
from unisono.errors import InvalidArgument


class ProcessGroup:
    """Ranks that do things together: group.WORLD, or what new_group() returns. Its ranks are global ones, in order."""

    def __init__(self, core: _core.Group, ranks: Sequence[int], desc: str, timeout: float | None) -> None:
        self.core = core
        """The unisono.Group behind it."""
        self.ranks = tuple(ranks)
        """The global rank of each member."""
        self.places = {rank: place for place, rank in enumerate(self.ranks)}
        """The rank in the group of each global one."""
        self.timeout = timeout
        """Seconds, of each operation; None: UNISONO_TIMEOUT."""
        self.group_desc = desc
        """What new_group() was given."""
        self.bound_device_id = None
        self.barriers = 0
        """How many monitored barriers there were."""

    def rank(self) -> int:
        """This process's rank in the group."""
        return self.core.rank

    def size(self) -> int:
        """How many ranks there are."""
        return self.core.size

    def name(self) -> str:
        """The back end's name."""
        return "unisono"

    @property
    def group_name(self) -> str:
        """The group's own name."""
        return self.core.name

    def abort(self) -> None:
        """End every operation in flight, here and on the other ranks, with Aborted; and every later call as well."""
        self.core.abort("ProcessGroup.abort() was called")

    def shutdown(self) -> None:
        """Finish what is in flight, and leave."""
        self.core.destroy()

    def __repr__(self) -> str:
        return f"<unisono.distributed.ProcessGroup '{self.group_name}': ranks {list(self.ranks)}>"


class Registry:
    """The groups of this process."""

    def __init__(self) -> None:
        self.default: ProcessGroup | None = None
        self.groups: list[ProcessGroup] = []

    @property
    def world(self) -> ProcessGroup | None:
        """The default group; None before init_process_group(), and in a forked child of a process that called it."""
        return self.default if self.default is not None and self.default.core.made_here else None


# A process is one rank of one world, so this is a property of the process, as its working directory
# is.
registry = Registry()


class _WorldMeta(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:  # noqa: N802 - torch's name
        """The default group; None before init_process_group()."""
        return registry.world


class group(metaclass=_WorldMeta):  # noqa: N801 - torch's name
    """group.WORLD is the default group."""


class GroupMember(metaclass=_WorldMeta):
    """GroupMember.NON_GROUP_MEMBER is what new_group() returns to a rank that is not a member."""

    NON_GROUP_MEMBER = -100


AnyGroup: TypeAlias = "ProcessGroup | int | None"
"""What a `group` argument may be: a group, None for the default one, GroupMember.NON_GROUP_MEMBER."""


def default_group() -> ProcessGroup:
    """The default group. Raises InvalidArgument (a ValueError) before init_process_group()."""
    world = registry.world
    if world is None:
        raise InvalidArgument(
            "Default process group has not been initialized, please make sure to call init_process_group."
        )
    return world


def is_outside(chosen: AnyGroup) -> bool:
    """Whether this rank is not a member of a group, as new_group() said."""
    return isinstance(chosen, int) and chosen == GroupMember.NON_GROUP_MEMBER


def member_of(chosen: AnyGroup, operation: str) -> ProcessGroup | None:
    """The group to work on; None, with a warning, where this rank is not a member. Raises InvalidArgument."""
    if isinstance(chosen, ProcessGroup):
        return chosen
    if chosen is None:
        return default_group()
    if is_outside(chosen):
        me = -1 if registry.world is None else registry.world.rank()
        warnings.warn(
            f"Running {operation} on global rank {me} which does not belong to the given group.", stacklevel=3
        )
        return None
    raise InvalidArgument(
        f"{operation}: group is a {type(chosen).__name__}; give what new_group() returned, group.WORLD, or None"
    )


def group_rank(chosen: ProcessGroup, rank: int | None, place: int | None, operation: str) -> int:
    """The rank in the group, from a global rank (dst, src) or one in the group (group_dst, group_src)."""
    if place is not None:
        if rank is not None:
            raise InvalidArgument(f"{operation}: Can't specify both group_rank and global_rank")
        if not 0 <= place < chosen.size():
            raise InvalidArgument(f"{operation}: Group rank {place} is not part of group {chosen}")
        return place
    if rank is None:
        raise InvalidArgument(f"{operation}: Must specify global_rank or group_rank")
    found = chosen.places.get(rank)
    if found is None:
        raise InvalidArgument(f"{operation}: Global rank {rank} is not part of group {chosen}")
    return found


def root_of(chosen: ProcessGroup, rank: int | None, place: int | None, operation: str) -> int:
    """The same where global rank 0 is the default."""
    return group_rank(chosen, 0 if rank is None and place is None else rank, place, operation)


def seconds_of(timeout: timedelta | None, operation: str) -> float | None:
    """A timeout in seconds. Raises TypeError unless it is a timedelta, as torch does."""
    if timeout is None:
        return None
    if not isinstance(timeout, timedelta):
        raise TypeError(f"{operation}: Expected timeout argument to be of type datetime.timedelta, got {timeout!r}")
    return timeout.total_seconds()


def get_rank(group: AnyGroup = None) -> int:
    """This process's rank in a group; -1 when it is not a member."""
    return -1 if is_outside(group) else _known(group, "get_rank").rank()


def get_world_size(group: AnyGroup = None) -> int:
    """How many ranks a group has; -1 when this process is not a member."""
    return -1 if is_outside(group) else _known(group, "get_world_size").size()


def get_group_rank(group: AnyGroup, global_rank: int) -> int:
    """A global rank's number in a group. Raises InvalidArgument (a ValueError) when it is not a member."""
    return group_rank(_known(group, "get_group_rank"), global_rank, None, "get_group_rank")


def get_global_rank(group: AnyGroup, group_rank: int) -> int:
    """The global rank of a group's member. Raises InvalidArgument (a ValueError) when there is none such."""
    chosen = _known(group, "get_global_rank")
    if not 0 <= group_rank < chosen.size():
        raise InvalidArgument(f"get_global_rank: Group rank {group_rank} is not part of group {chosen}")
    return chosen.ranks[group_rank]


def get_process_group_ranks(group: AnyGroup) -> list[int]:
    """The global ranks of a group's members, in the group's order."""
    return list(_known(group, "get_process_group_ranks").ranks)


def get_pg_count() -> int:
    """How many groups this process is a member of."""
    return len(registry.groups) if registry.world is not None else 0


def _known(chosen: AnyGroup, operation: str) -> ProcessGroup:
    found: Any = default_group() if chosen is None else chosen
    if not isinstance(found, ProcessGroup):
        raise InvalidArgument(f"{operation}: Group {chosen} is not registered, please create group with new_group")
    return found

"""Groups of some of the ranks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from unisono.distributed._group import (
    AnyGroup,
    GroupMember,
    ProcessGroup,
    default_group,
    get_process_group_ranks,
    get_world_size,
    registry,
    seconds_of,
)
from unisono.errors import InvalidArgument


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """Make a group of some global ranks (of all, without `ranks`). Blocks until all its members have called it.

    Called by all ranks, or by the members only: both ways work, with use_local_synchronization or without. Returns the
    group, or GroupMember.NON_GROUP_MEMBER where this rank is not a member.
    timeout: of each operation of the group, and of making it; the world's when None.
    sort_ranks: whether ranks are numbered in ascending order, as torch does, or as they are listed.
    backend, pg_options, device_id: nothing depends on them here.
    """
    world = default_group()
    limit = seconds_of(timeout, "new_group") if timeout is not None else world.timeout
    if ranks is None:
        ranks = range(world.size())
    members = sorted(ranks) if sort_ranks else list(ranks)
    if len(set(members)) != len(members):
        raise InvalidArgument(f"new_group: ranks list must not contain duplicate entries, got {members}")
    for rank in members:
        if not 0 <= rank < world.size():
            raise InvalidArgument(
                f"new_group: Rank {rank} is out of range. Valid ranks are 0 to {world.size() - 1} "
                f"(world_size={world.size()})"
            )
    if world.rank() not in members:
        return GroupMember.NON_GROUP_MEMBER
    made = ProcessGroup(world.core.subgroup(members, timeout=limit), members, group_desc or "undefined", limit)
    registry.groups.append(made)
    return made


def new_subgroups(
    group_size: int | None = None,
    group: AnyGroup = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Cut a group into groups of `group_size` ranks each: this rank's, and all of them.

    group_size: the ranks of a host, as the launcher says in LOCAL_WORLD_SIZE, when None.
    """
    if group_size is None:
        local = os.environ.get("LOCAL_WORLD_SIZE", "")
        if not local.isdigit():
            raise InvalidArgument(
                "new_subgroups: no launcher says in LOCAL_WORLD_SIZE how many ranks a host has; give group_size"
            )
        group_size = int(local)
    if group_size <= 0:
        raise InvalidArgument(f"new_subgroups: The arg 'group_size' ({group_size}) must be positive")
    size = get_world_size(group)
    if size < group_size:
        raise InvalidArgument(
            f"new_subgroups: The arg 'group_size' ({group_size}) must not exceed the world size ({size})"
        )
    if size % group_size:
        raise InvalidArgument(f"new_subgroups: The world size ({size}) must be divisible by '{group_size=}'")
    ranks = get_process_group_ranks(group)
    lists = [ranks[i : i + group_size] for i in range(0, len(ranks), group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Make several groups that have no rank in common: this rank's (None where it is in none), and all of them."""
    if not ranks_per_subgroup_list:
        raise InvalidArgument("new_subgroups_by_enumeration: The arg 'ranks_per_subgroup_list' cannot be empty")
    seen: dict[int, Sequence[int]] = {}
    for ranks in ranks_per_subgroup_list:
        for rank in ranks:
            if rank in seen:
                raise InvalidArgument(
                    f"new_subgroups_by_enumeration: Rank {rank} has appeared in both subgroup {seen[rank]} and {ranks}"
                )
            seen[rank] = ranks
    groups = [
        new_group(ranks, timeout, backend, pg_options, group_desc=group_desc) for ranks in ranks_per_subgroup_list
    ]
    return next((made for made in groups if isinstance(made, ProcessGroup)), None), groups


def split_group(
    parent_pg: ProcessGroup | None = None,
    split_ranks: list[list[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> ProcessGroup | None:
    """Cut a group into several: split_ranks lists each one's ranks, in the parent's numbering. This rank's, or None.

    Called by the ranks that are listed; the others may call it.
    """
    parent = default_group() if parent_pg is None else parent_pg
    limit = seconds_of(timeout, "split_group") if timeout is not None else parent.timeout
    if not split_ranks:
        raise InvalidArgument("split_group: split_ranks cannot be None or empty")
    for ranks in split_ranks:
        if not ranks or len(set(ranks)) != len(ranks) or not all(0 <= rank < parent.size() for rank in ranks):
            raise InvalidArgument(f"split_group: {ranks} is no list of different ranks from 0 to {parent.size() - 1}")
    mine = next((sorted(ranks) for ranks in split_ranks if parent.rank() in ranks), None)
    if mine is None:
        return None
    members = [parent.ranks[rank] for rank in mine]
    core = parent.core.subgroup(mine, timeout=limit)
    made = ProcessGroup(core, members, group_desc or f"{parent.group_desc}:split", limit)
    registry.groups.append(made)
    return made

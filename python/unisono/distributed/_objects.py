"""The collectives on Python objects. As torch's they unpickle what other ranks send; unless UNISONO_PICKLE=0.

Numbers, text, bytes, lists, tuples, dicts, NumPy arrays and torch CPU tensors travel without pickle all the same.
"""

from __future__ import annotations

from typing import Any

from unisono._monitored import FIRST_TAG
from unisono.distributed._group import AnyGroup, member_of, root_of
from unisono.distributed._p2p import peer_of, source_of
from unisono.errors import InvalidArgument

_TAG = 2 * FIRST_TAG  # beyond those of users and of barriers


def all_gather_object(object_list: list[Any], obj: Any, group: AnyGroup = None) -> None:
    """Give every rank the objects of all ranks: object_list[i] becomes rank i's."""
    chosen = member_of(group, "all_gather_object")
    if chosen is None:
        return
    _require_room(object_list, chosen.size(), "all_gather_object", "object_list")
    found = chosen.core.all_gather_object(obj, pickle=True, timeout=chosen.timeout)
    object_list[: len(found)] = found


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: AnyGroup = None,
    group_dst: int | None = None,
) -> None:
    """Give `dst` (rank 0 by default) the objects of all ranks: object_gather_list[i] becomes rank i's.

    Only there a list is given.
    """
    chosen = member_of(group, "gather_object")
    if chosen is None:
        return
    root = root_of(chosen, dst, group_dst, "gather_object")
    if chosen.rank() == root:
        if not object_gather_list:
            raise InvalidArgument("Argument ``object_gather_list`` must be specified on destination rank.")
        _require_room(object_gather_list, chosen.size(), "gather_object", "object_gather_list")
    elif object_gather_list:
        raise InvalidArgument("Argument ``object_gather_list`` must NOT be specified on non-destination ranks.")
    found = chosen.core.gather_object(obj, root, pickle=True, timeout=chosen.timeout)
    if found is not None and object_gather_list is not None:
        object_gather_list[: len(found)] = found


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: AnyGroup = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Give every rank the objects that object_list has at `src` (rank 0 by default).

    The list's length is the same everywhere. device: as torch has it; nothing depends on it.
    """
    chosen = member_of(group, "broadcast_object_list")
    if chosen is None:
        return
    root = root_of(chosen, src, group_src, "broadcast_object_list")
    _require_room(object_list, 0, "broadcast_object_list", "object_list")
    found = chosen.core.broadcast_object(object_list, root, pickle=True, timeout=chosen.timeout)
    if chosen.rank() != root:
        _fill(object_list, found, "broadcast_object_list", chosen.ranks[root])


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: AnyGroup = None,
    group_src: int | None = None,
) -> None:
    """Give rank i the i-th object of the input list at `src` (rank 0 by default), as first of the output list."""
    chosen = member_of(group, "scatter_object_list")
    if chosen is None:
        return
    root = root_of(chosen, src, group_src, "scatter_object_list")
    _require_room(scatter_object_output_list, 1, "scatter_object_list", "scatter_object_output_list")
    given = scatter_object_input_list if chosen.rank() == root else None
    if chosen.rank() == root and given is None:
        raise InvalidArgument("scatter_object_list: source rank must provide non-None scatter_object_input_list")
    scatter_object_output_list[0] = chosen.core.scatter_object(given, root, pickle=True, timeout=chosen.timeout)


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: AnyGroup = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send the objects of a list to rank `dst`; blocks until they are on their way.

    device, use_batch: as torch has them; nothing depends on them.
    """
    chosen = member_of(group, "send_object_list")
    if chosen is None:
        return
    peer = peer_of(chosen, dst, group_dst, "destination", "send_object_list")
    _require_room(object_list, 0, "send_object_list", "object_list")
    chosen.core.send_object(object_list, peer, _TAG, pickle=True, timeout=chosen.timeout)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: AnyGroup = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive the objects that send_object_list sent, from rank `src` or from any; returns the sender's global rank.

    object_list is as long as the sender's. Outside the group: -1.
    """
    chosen = member_of(group, "recv_object_list")
    if chosen is None:
        return -1
    _require_room(object_list, 0, "recv_object_list", "object_list")
    source = source_of(chosen, src, group_src, "recv_object_list")
    found, place = chosen.core.recv_object(source, _TAG, pickle=True, timeout=chosen.timeout)
    _fill(object_list, found, "recv_object_list", chosen.ranks[place])
    return chosen.ranks[place]


def _require_room(given: Any, least: int, operation: str, argument: str) -> None:
    if not isinstance(given, list) or len(given) < least:
        have = f"of {len(given)}" if isinstance(given, list) else f"a {type(given).__name__}"
        raise InvalidArgument(
            f"{operation}: {argument} must be a list of at least {least}, not {have}. Nothing was sent"
        )


def _fill(given: list[Any], found: Any, operation: str, source: int) -> None:
    if not isinstance(found, list) or len(found) != len(given):
        sent = f"a list of {len(found)}" if isinstance(found, list) else f"a {type(found).__name__}"
        raise InvalidArgument(f"{operation}: object_list is a list of {len(given)}, and rank {source} sent {sent}")
    given[:] = found

"""Messages from rank to rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unisono import _core
from unisono.distributed._group import AnyGroup, ProcessGroup, default_group, group_rank, is_outside, member_of
from unisono.distributed._types import Tensor, bare
from unisono.distributed._work import Work
from unisono.errors import InvalidArgument


def send(
    tensor: Tensor, dst: int | None = None, group: AnyGroup = None, tag: int = 0, group_dst: int | None = None
) -> None:
    """Send `tensor` to rank `dst`; blocks until it may be used again.

    dst: a global rank; group_dst: a rank in the group. Messages between two ranks with one tag do not overtake each
    other.
    """
    chosen = member_of(group, "send")
    if chosen is not None:
        peer = peer_of(chosen, dst, group_dst, "destination", "send")
        chosen.core.send(bare(tensor), peer, tag, timeout=chosen.timeout)


def isend(
    tensor: Tensor, dst: int | None = None, group: AnyGroup = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """As send(), but returns a Work at once; `tensor` must not be changed before it is done."""
    chosen = member_of(group, "isend")
    if chosen is None:
        return None
    peer = peer_of(chosen, dst, group_dst, "destination", "isend")
    return Work([chosen.core.isend(bare(tensor), peer, tag, timeout=chosen.timeout)], [tensor])


def recv(
    tensor: Tensor, src: int | None = None, group: AnyGroup = None, tag: int = 0, group_src: int | None = None
) -> int:
    """Receive a message into `tensor`, from rank `src` or from any; blocks until it is there.

    Returns the sender's global rank; -1 outside the group. `tensor` may be longer than the message: what lies behind
    it is left alone.
    """
    chosen = member_of(group, "recv")
    if chosen is None:
        return -1
    received = chosen.core.recv(bare(tensor), source_of(chosen, src, group_src, "recv"), tag, timeout=chosen.timeout)
    return chosen.ranks[received.source]


def irecv(
    tensor: Tensor, src: int | None = None, group: AnyGroup = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """As recv(), but returns a Work at once, whose source_rank() says who sent."""
    chosen = member_of(group, "irecv")
    if chosen is None:
        return None
    source = source_of(chosen, src, group_src, "irecv")
    return Work([chosen.core.irecv(bare(tensor), source, tag, timeout=chosen.timeout)], [tensor], chosen.ranks)


class P2POp:
    """One message of batch_isend_irecv().

    op: isend or irecv. peer: the other rank, a global one; group_peer: or in the group.
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: AnyGroup = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op is not isend and op is not irecv:
            raise InvalidArgument("P2POp: Invalid ``op``: give isend or irecv of unisono.distributed")
        if is_outside(group):
            raise InvalidArgument("P2POp: this rank is not a member of the given group")
        self.op = op
        self.tensor = tensor
        self.group: ProcessGroup = default_group() if group is None else _as_group(group)
        self.tag = tag
        self.group_peer = group_rank(self.group, peer, group_peer, "P2POp")
        self.peer = self.group.ranks[self.group_peer]

    def __repr__(self) -> str:
        me, other = self.group.rank(), self.group_peer
        source, target = (me, other) if self.op is isend else (other, me)
        name = "isend" if self.op is isend else "irecv"
        return f"P2POp({name} pg={self.group.group_name}, group_src={source}, group_dst={target})"


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin several messages, in any order of sends and receives; returns a Work for each."""
    if not isinstance(p2p_op_list, list) or not p2p_op_list or not all(isinstance(each, P2POp) for each in p2p_op_list):
        raise InvalidArgument("batch_isend_irecv: Invalid ``p2p_op_list``: give a list of at least one P2POp")
    if any(each.group is not p2p_op_list[0].group for each in p2p_op_list):
        raise InvalidArgument("batch_isend_irecv: All ops need to use the same group.")
    for each in p2p_op_list:  # before anything is sent
        _require_other(each.group, each.group_peer, "peer", "batch_isend_irecv")
    works = []
    for each in p2p_op_list:
        key = "group_dst" if each.op is isend else "group_src"
        works.append(each.op(each.tensor, group=each.group, tag=each.tag, **{key: each.group_peer}))
    return works


def _as_group(given: Any) -> ProcessGroup:
    if not isinstance(given, ProcessGroup):
        raise InvalidArgument(f"P2POp: group is a {type(given).__name__}; give what new_group() returned, or None")
    return given


def source_of(chosen: ProcessGroup, src: int | None, group_src: int | None, operation: str) -> int:
    """The rank in the group to receive from; ANY_RANK where none is given."""
    if src is None and group_src is None:
        return _core.ANY_RANK
    return peer_of(chosen, src, group_src, "source", operation)


def peer_of(chosen: ProcessGroup, rank: int | None, place: int | None, role: str, operation: str) -> int:
    """The rank in the group of another one. Raises InvalidArgument where it is this one."""
    found = group_rank(chosen, rank, place, operation)
    _require_other(chosen, found, role, operation)
    return found


def _require_other(chosen: ProcessGroup, place: int, role: str, operation: str) -> None:
    if place == chosen.rank():
        raise InvalidArgument(
            f"{operation}: Invalid {role} rank: {role} rank should not be the same as the rank of the current process. "
            "Copy the tensor instead. Nothing was sent"
        )

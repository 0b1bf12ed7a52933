"""The collectives on arrays. Each returns a Work with async_op=True, otherwise None; None as well outside the group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeAlias

from unisono import _core
from unisono.distributed._group import AnyGroup, ProcessGroup, group_rank, member_of, root_of, seconds_of
from unisono.distributed._types import ReduceOp, Tensor, bare, core_op
from unisono.distributed._work import Future, Work
from unisono.errors import InvalidArgument

Handle: TypeAlias = Any
"""A Work with async_op=True (of the coalesced ones a Future), otherwise None."""


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: AnyGroup = None, async_op: bool = False) -> Handle:
    """Combine `tensor` of all ranks element by element, in place; every rank gets the result, by default the sum."""
    chosen = member_of(group, "all_reduce")
    if chosen is None:
        return None
    how = core_op(op, tensor, "all_reduce")
    return _perform(chosen, chosen.core.all_reduce, tensor, how, results=[tensor], async_op=async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: AnyGroup = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Handle:
    """Combine `tensor` of all ranks; only `dst` gets the result, in place. The others' tensors are never written."""
    chosen = member_of(group, "reduce")
    if chosen is None:
        return None
    root = group_rank(chosen, dst, group_dst, "reduce")
    how = core_op(op, tensor, "reduce")
    return _perform(chosen, chosen.core.reduce, tensor, root, how, results=[tensor], async_op=async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: AnyGroup = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Handle:
    """Give every rank what `tensor` holds at `src`."""
    chosen = member_of(group, "broadcast")
    if chosen is None:
        return None
    root = group_rank(chosen, src, group_src, "broadcast")
    return _perform(chosen, chosen.core.broadcast, tensor, root, results=[tensor], async_op=async_op)


def all_gather(tensor_list: Sequence[Tensor], tensor: Tensor, group: AnyGroup = None, async_op: bool = False) -> Handle:
    """Give every rank `tensor` of all ranks: tensor_list[i] is rank i's. Sizes may differ by rank."""
    chosen = member_of(group, "all_gather")
    if chosen is None:
        return None
    parts = _list(tensor_list, "all_gather", "tensor_list")
    return _perform(chosen, chosen.core.all_gather, tensor, parts, results=[parts], async_op=async_op)


def all_gather_single(
    output_tensor: Tensor, input_tensor: Tensor, group: AnyGroup = None, async_op: bool = False
) -> Handle:
    """Give every rank `input_tensor` of all ranks, one behind the other in `output_tensor`."""
    chosen = member_of(group, "all_gather_single")
    if chosen is None:
        return None
    return _perform(
        chosen, chosen.core.all_gather, input_tensor, output_tensor, results=[output_tensor], async_op=async_op
    )


all_gather_into_tensor = all_gather_single


def gather(
    tensor: Tensor,
    gather_list: Sequence[Tensor] | None = None,
    dst: int | None = None,
    group: AnyGroup = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Handle:
    """Give `dst` (rank 0 by default) `tensor` of all ranks: gather_list[i] is rank i's. Only there a list is given."""
    chosen = member_of(group, "gather")
    if chosen is None:
        return None
    root = root_of(chosen, dst, group_dst, "gather")
    if chosen.rank() != root:
        if gather_list:
            raise InvalidArgument("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
        gather_list = None
    elif not gather_list:
        raise InvalidArgument("Argument ``gather_list`` must be specified on destination rank.")
    else:
        gather_list = _list(gather_list, "gather", "gather_list")
    return _perform(
        chosen,
        chosen.core.gather,
        tensor,
        gather_list,
        root,
        results=[gather_list] if gather_list else [],
        async_op=async_op,
    )


def scatter(
    tensor: Tensor,
    scatter_list: Sequence[Tensor] | None = None,
    src: int | None = None,
    group: AnyGroup = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Handle:
    """Give rank i scatter_list[i] of `src` (rank 0 by default), in `tensor`. Only there a list is given."""
    chosen = member_of(group, "scatter")
    if chosen is None:
        return None
    root = root_of(chosen, src, group_src, "scatter")
    if chosen.rank() != root:
        if scatter_list:
            raise InvalidArgument("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
        scatter_list = None
    elif not scatter_list:
        raise InvalidArgument("Argument ``scatter_list`` must be specified on source rank.")
    else:
        scatter_list = _list(scatter_list, "scatter", "scatter_list")
    return _perform(chosen, chosen.core.scatter, scatter_list, tensor, root, results=[tensor], async_op=async_op)


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: Any = ReduceOp.SUM,
    group: AnyGroup = None,
    async_op: bool = False,
) -> Handle:
    """Combine input_list of all ranks; rank i gets input_list[i] combined, in `output`. Sizes may differ."""
    chosen = member_of(group, "reduce_scatter")
    if chosen is None:
        return None
    parts = _list(input_list, "reduce_scatter", "input_list")
    how = core_op(op, parts, "reduce_scatter")
    return _perform(chosen, chosen.core.reduce_scatter, parts, output, how, results=[output], async_op=async_op)


def reduce_scatter_single(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: AnyGroup = None, async_op: bool = False
) -> Handle:
    """Combine `input` of all ranks; rank i gets the i-th part of the result, in `output`."""
    chosen = member_of(group, "reduce_scatter_single")
    if chosen is None:
        return None
    how = core_op(op, input, "reduce_scatter_single")
    return _perform(chosen, chosen.core.reduce_scatter, input, output, how, results=[output], async_op=async_op)


reduce_scatter_tensor = reduce_scatter_single


def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: AnyGroup = None,
    async_op: bool = False,
) -> Handle:
    """Send input_tensor_list[i] to rank i, and get output_tensor_list[i] from it. Sizes may differ."""
    chosen = member_of(group, "all_to_all")
    if chosen is None:
        return None
    inputs = _list(input_tensor_list, "all_to_all", "input_tensor_list")
    outputs = _list(output_tensor_list, "all_to_all", "output_tensor_list")
    return _perform(chosen, chosen.core.all_to_all, inputs, outputs, results=outputs, async_op=async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: AnyGroup = None,
    async_op: bool = False,
) -> Handle:
    """Send rank i its rows of `input`, and get its rows of `output` from it.

    Split sizes count rows of dimension 0, one for each rank; without them the rows are shared equally. All ranks give
    some, or none does.
    """
    chosen = member_of(group, "all_to_all_single")
    if chosen is None:
        return None
    counts = output_counts = None
    if output_split_sizes or input_split_sizes:
        counts = _counts(input_split_sizes, input, chosen, "input")
        output_counts = _counts(output_split_sizes, output, chosen, "output")
    return _perform(
        chosen,
        chosen.core.all_to_all,
        input,
        output,
        counts=counts,
        output_counts=output_counts,
        results=[output],
        async_op=async_op,
    )


def all_reduce_coalesced(
    tensors: Sequence[Tensor], op: Any = ReduceOp.SUM, group: AnyGroup = None, async_op: bool = False
) -> Handle:
    """As all_reduce on each of several tensors, begun together. With async_op=True returns a Future."""
    chosen = member_of(group, "all_reduce_coalesced")
    if chosen is None:
        return None
    parts = _list(tensors, "all_reduce_coalesced", "tensors")
    how = [core_op(op, tensor, "all_reduce_coalesced") for tensor in parts]
    return _together(
        [
            chosen.core.all_reduce(bare(tensor), each, async_op=True, timeout=chosen.timeout)
            for tensor, each in zip(parts, how, strict=True)
        ],
        list(parts),
        async_op,
    )


def all_gather_coalesced(
    output_tensor_lists: Sequence[Sequence[Tensor]],
    input_tensor_list: Sequence[Tensor],
    group: AnyGroup = None,
    async_op: bool = False,
) -> Handle:
    """Gather several tensors: output_tensor_lists[r][i] is rank r's input_tensor_list[i]. As all_reduce_coalesced."""
    chosen = member_of(group, "all_gather_coalesced")
    if chosen is None:
        return None
    inputs = _list(input_tensor_list, "all_gather_coalesced", "input_tensor_list")
    if len(output_tensor_lists) != chosen.size() or any(len(each) != len(inputs) for each in output_tensor_lists):
        raise InvalidArgument(
            f"all_gather_coalesced: output_tensor_lists must be {chosen.size()} lists, one for each rank, of "
            f"{len(inputs)} tensors. Nothing was sent"
        )
    outputs = [bare([each[i] for each in output_tensor_lists]) for i in range(len(inputs))]
    works = [
        chosen.core.all_gather(bare(tensor), into, async_op=True, timeout=chosen.timeout)
        for tensor, into in zip(inputs, outputs, strict=True)
    ]
    return _together(works, [list(each) for each in output_tensor_lists], async_op)


def barrier(
    group: AnyGroup = None, async_op: bool = False, device_ids: Any = None, timeout: timedelta | None = None
) -> Handle:
    """Wait until every rank has called it, and all collectives before it are done."""
    chosen = member_of(group, "barrier")
    if chosen is None:
        return None
    if device_ids is not None:
        raise InvalidArgument("barrier: device_ids is for accelerators; this works on main memory: leave it out")
    limit = seconds_of(timeout, "barrier")
    return _perform(chosen, chosen.core.barrier, results=[], async_op=async_op, timeout=limit)


def _perform(
    chosen: ProcessGroup,
    operation: Callable[..., Any],
    *arguments: Any,
    results: list[Any],
    async_op: bool,
    timeout: float | None = None,
    **more: Any,
) -> Work | None:
    limit = chosen.timeout if timeout is None else timeout
    work = operation(*map(bare, arguments), async_op=async_op, timeout=limit, **more)
    return Work([work], results) if async_op else None


def _together(works: list[_core.Work], results: list[Any], async_op: bool) -> Future | None:
    work = Work(works, results)
    if async_op:
        return work.get_future()
    work.wait()
    return None


def _list(value: Any, operation: str, argument: str) -> list[Tensor]:
    if not isinstance(value, list | tuple):
        raise TypeError(
            f"{operation}: Expected parameter `{argument}` to be a list of tensors, one for each rank, but got "
            f"{type(value).__name__} instead."
        )
    return list(value)


def _counts(splits: Sequence[int] | None, tensor: Tensor, chosen: ProcessGroup, side: str) -> list[int]:
    """Rows for each rank as elements."""
    shape = tuple(tensor.shape) if hasattr(tensor, "shape") else (len(tensor),)
    rows = shape[0] if shape else 1
    row = 1
    for extent in shape[1:]:
        row *= extent
    if not splits:
        if rows % chosen.size():
            raise InvalidArgument(
                f"all_to_all_single: the {rows} rows of {side} do not divide by the {chosen.size()} ranks; give "
                f"{side}_split_sizes. Nothing was sent"
            )
        return [rows // chosen.size() * row] * chosen.size()
    if len(splits) != chosen.size() or sum(splits) != rows:
        raise InvalidArgument(
            f"all_to_all_single: {side}_split_sizes is {list(splits)}; it needs {chosen.size()} numbers, one for each "
            f"rank, whose sum is the {rows} rows of {side}. Nothing was sent"
        )
    return [split * row for split in splits]

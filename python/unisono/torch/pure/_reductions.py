"""all_reduce, reduce, reduce_scatter."""

from __future__ import annotations

from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

from unisono.torch.pure import _sparse
from unisono.torch.pure._calls import Calls, Lists, Tensors, as_many, counts_of, landed, landing_for, one
from unisono.torch.pure._errors import translating
from unisono.torch.pure._forms import takes
from unisono.torch.pure._tensors import (
    check,
    check_dense,
    check_same_type,
    check_writable,
    flat,
    joined,
    packed,
    prepared,
    reduction,
)
from unisono.torch.pure._work import PythonWork


class Reductions(Calls):
    """Each checks its arguments before anything is sent."""

    @takes(c10d.AllreduceOptions, "op", "timeout", lists=True)
    def allreduce(self, tensors: Tensors, opts: Any) -> PythonWork:
        """Torch's."""
        title = "unisono:all_reduce"
        one(tensors, title, "tensors")
        if tensors[0].layout == torch.sparse_coo:
            return self.allreduce_sparse(tensors, opts)
        return self._all_reduce(tensors, opts, title)

    @takes(c10d.AllreduceCoalescedOptions, "op", "timeout")
    def allreduce_coalesced(self, tensors: Tensors, opts: Any) -> PythonWork:
        """Torch's: one all_reduce of all of them."""
        title = "unisono:all_reduce"
        check(len(tensors) > 0, title, ": the list of tensors is empty")
        return self._all_reduce(tensors, opts, title)

    def _all_reduce(self, tensors: Tensors, opts: Any, title: str) -> PythonWork:
        check_same_type(tensors, tensors[0], title)
        for t in tensors:
            check_writable(t, title)
        op = reduction(tensors[0], opts.reduceOp, title)
        landing = prepared(tensors[0] if len(tensors) == 1 else joined(tensors), opts.reduceOp, title)
        memory = flat(landing)
        plan = self._plan(title, lambda **o: self._group.all_reduce(memory, op, **o), tensors, tensors)
        return self._launch(landed(plan, tensors, landing), opts)

    @takes(c10d.AllreduceOptions, "op", "timeout")
    def allreduce_sparse(self, tensors: Tensors, opts: Any) -> PythonWork:
        """The sum of sparse tensors; blocks, also when it is asynchronous."""
        title = "unisono:all_reduce"
        with translating(self._title(title)):
            _sparse.all_reduce(self._group, tensors, opts.reduceOp, self._limit(opts.timeout))
        return PythonWork(self._plan(title, lambda **_: None, tensors, tensors), None)

    @takes(c10d.ReduceOptions, "root", "op", "timeout", lists=True)
    def reduce(self, tensors: Tensors, opts: Any) -> PythonWork:
        """Torch's: into the root's tensor alone."""
        title = "unisono:reduce"
        one(tensors, title, "tensors")
        self._check_root(opts.rootRank, title)
        t, root = tensors[0], int(opts.rootRank)
        check_dense(t, title)
        if root == self._rank:
            check_writable(t, title)
        op = reduction(t, opts.reduceOp, title)
        landing = prepared(t, opts.reduceOp, title)
        memory = flat(landing)
        plan = self._plan(title, lambda **o: self._group.reduce(memory, root, op, **o), tensors, tensors)
        return self._launch(landed(plan, tensors, landing) if root == self._rank else plan, opts)

    @takes(c10d.ReduceScatterOptions, "op", "timeout", lists=True)
    def reduce_scatter(self, outputs: Tensors, inputs: Lists, opts: Any) -> PythonWork:
        """Torch's: parts may differ in size."""
        title = "unisono:reduce_scatter"
        one(outputs, title, "outputs")
        good = len(inputs) == 1 and len(inputs[0]) == self._size
        check(good, title, ": a list of ", self._size, " input tensors is needed, one for each rank")
        out, parts = outputs[0], inputs[0]
        check_same_type(parts, out, title)
        own = parts[self._rank].numel()
        here = f"input {self._rank}, which is reduced into it, has {own}"
        check(out.numel() == own, title, ": the output has ", out.numel(), " elements, but ", here)
        return self._reduce_scatter(outputs, joined(parts), [p.numel() for p in parts], opts, title)

    @takes(c10d.ReduceScatterOptions, "op", "timeout")
    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> PythonWork:
        """Torch's, also called _reduce_scatter_base."""
        title = "unisono:reduce_scatter_tensor"
        self._check_times(output, input, title, "input", "output")
        return self._reduce_scatter([output], input, [], opts, title)

    _reduce_scatter_base = reduce_scatter_single

    @takes(c10d.ReduceScatterOptions, "op", "timeout")
    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> PythonWork:
        """One reduce_scatter of what all inputs hold for each rank: the parts are laid out rank by rank."""
        title = "unisono:reduce_scatter_tensor"
        as_many(inputs, outputs, title)
        for out, source in zip(outputs, inputs, strict=True):
            self._check_times(out, source, title, "input", "output")
        check_same_type(inputs, outputs[0], title)
        rows = [packed(t).view(self._size, -1) for t in inputs if t.numel()] or [packed(inputs[0]).view(self._size, 0)]
        return self._reduce_scatter(outputs, torch.cat(rows, 1), [], opts, title)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _reduce_scatter(
        self, outputs: Tensors, whole: torch.Tensor, counts: list[int], opts: Any, title: str
    ) -> PythonWork:
        check_same_type(outputs, outputs[0], title)
        for out in outputs:
            check_writable(out, title)
        op = reduction(outputs[0], opts.reduceOp, title)
        source, landing = flat(prepared(whole, opts.reduceOp, title)), landing_for(outputs)
        more = counts_of(outputs[0], counts)
        memory = flat(landing)
        plan = self._plan(
            title, lambda **o: self._group.reduce_scatter(source, memory, op, **more, **o), [whole], outputs
        )
        return self._launch(landed(plan, outputs, landing), opts)

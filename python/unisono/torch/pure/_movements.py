"""broadcast, all_gather, gather, scatter: elements of any type, none changed."""

# torch.distributed exports less to mypy than to its users.
# mypy: disable-error-code="attr-defined"

from __future__ import annotations

from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

from unisono.torch.pure._calls import Calls, Lists, Tensors, as_many, counts_of, landed, landing_for, one, outcome_of
from unisono.torch.pure._forms import takes
from unisono.torch.pure._tensors import (
    check,
    check_dense,
    check_same_type,
    check_writable,
    flat,
    joined,
    packed,
    settle_into,
    stacked,
)
from unisono.torch.pure._work import Outcome, PythonWork


class Movements(Calls):
    """Each checks its arguments before anything is sent."""

    @takes(c10d.BroadcastOptions, "root", "timeout", lists=True)
    def broadcast(self, tensors: Tensors, opts: Any) -> PythonWork:
        """Torch's."""
        title = "unisono:broadcast"
        one(tensors, title, "tensors")
        self._check_root(opts.rootRank, title)
        t, root = tensors[0], int(opts.rootRank)
        check_dense(t, title)
        if root != self._rank:
            check_writable(t, title)
        landing = packed(t) if root == self._rank else landing_for(tensors)
        memory = flat(landing)
        plan = self._plan(title, lambda **o: self._group.broadcast(memory, root, **o), tensors, tensors)
        return self._launch(plan if root == self._rank else landed(plan, tensors, landing), opts)

    @takes(c10d.AllgatherOptions, "timeout", lists=True)
    def allgather(self, outputs: Lists, inputs: Tensors, opts: Any) -> PythonWork:
        """Torch's: parts may differ in size."""
        title = "unisono:all_gather"
        one(inputs, title, "inputs")
        one(outputs, title, "lists of outputs")
        parts, mine = outputs[0], inputs[0]
        check_dense(mine, title)
        self._check_parts(parts, mine, title)
        own = parts[self._rank].numel()
        here = f"output {self._rank}, into which it goes, has {own}"
        check(own == mine.numel(), title, ": the input has ", mine.numel(), " elements, but ", here)
        equal = all(p.shape == parts[0].shape for p in parts)
        outcome = Outcome(parts, lambda: [stacked(parts)]) if equal else outcome_of(parts)
        return self._all_gather(parts, mine, [p.numel() for p in parts], outcome, opts, title)

    @takes(c10d.AllgatherOptions, "timeout")
    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> PythonWork:
        """Torch's, also called _allgather_base."""
        title = "unisono:_all_gather_base"
        self._check_times(input, output, title, "output", "input")
        return self._all_gather([output], input, [], outcome_of([output]), opts, title)

    _allgather_base = all_gather_single

    @takes(c10d.AllgatherOptions, "timeout")
    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> PythonWork:
        """One all_gather of all inputs behind each other; part r of output i is rank r's i-th input."""
        title = "unisono:_all_gather_base"
        as_many(inputs, outputs, title)
        for out, source in zip(outputs, inputs, strict=True):
            self._check_times(source, out, title, "output", "input")
            check_writable(out, title)
        parts = [torch.empty_like(t, memory_format=torch.contiguous_format) for t in inputs for _ in range(self._size)]
        by_rank = [parts[i * self._size + r] for r in range(self._size) for i in range(len(inputs))]
        flats = [torch.cat([p.reshape(-1) for p in parts[i * self._size :][: self._size]]) for i in range(len(inputs))]

        def finish(landing: torch.Tensor) -> None:
            settle_into(by_rank, landing)
            for i, out in enumerate(outputs):
                mine = parts[i * self._size :][: self._size]
                settle_into([out], torch.cat([p.reshape(-1) for p in mine], out=flats[i]))

        return self._gathered(joined(inputs), finish, outputs[0], outcome_of(outputs), opts, title)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    @takes(c10d.AllgatherOptions, "timeout")
    def allgather_coalesced(self, outputs: Lists, inputs: Tensors, opts: Any) -> PythonWork:
        """outputs[r][i] is rank r's i-th input."""
        title = "unisono:all_gather"
        check(len(inputs) > 0, title, ": the list of inputs is empty")
        lists = len(outputs) == self._size
        check(lists, title, ": ", len(outputs), " lists of outputs; ", self._size, " are needed, one for each rank")
        check_same_type(inputs, inputs[0], title)
        for parts in outputs:
            check(len(parts) == len(inputs), title, ": a list of outputs has ", len(parts), " tensors and there are ")
            check_same_type(parts, inputs[0], title)
            for i, (out, source) in enumerate(zip(parts, inputs, strict=True)):
                check_writable(out, title)
                same = out.numel() == source.numel()
                check(same, title, ": output ", i, " has ", out.numel(), " elements, input ", i, " ", source.numel())
        all_parts = [t for parts in outputs for t in parts]
        outcome = Outcome(all_parts, lambda: outputs)
        whole = joined(inputs)
        return self._gathered(whole, lambda got: settle_into(all_parts, got), whole, outcome, opts, title)

    def _all_gather(
        self, outs: Tensors, mine: torch.Tensor, counts: list[int], outcome: Outcome, opts: Any, title: str
    ) -> PythonWork:
        check_same_type(outs, mine, title)
        for out in outs:
            check_writable(out, title)
        more, landing, source = counts_of(mine, counts), landing_for(outs), flat(packed(mine))
        memory = flat(landing)
        plan = self._plan(title, lambda **o: self._group.all_gather(source, memory, **more, **o), [mine], outcome)
        return self._launch(landed(plan, outs, landing), opts)

    def _gathered(
        self, whole: torch.Tensor, finish: Any, like: torch.Tensor, outcome: Outcome, opts: Any, title: str
    ) -> PythonWork:
        """all_gather of joined memory into a landing, from which `finish` takes the results."""
        landing = torch.empty(self._size * whole.numel(), dtype=like.dtype)
        source, memory = flat(whole), flat(landing)
        plan = self._plan(title, lambda **o: self._group.all_gather(source, memory, **o), [whole], outcome)
        plan.finish = lambda: finish(landing)
        return self._launch(plan, opts)

    @takes(c10d.GatherOptions, "root", "timeout", lists=True)
    def gather(self, outputs: Lists, inputs: Tensors, opts: Any) -> PythonWork:
        """Torch's: lists at the root alone."""
        title = "unisono:gather"
        one(inputs, title, "inputs")
        self._check_root(opts.rootRank, title)
        mine, root = inputs[0], int(opts.rootRank)
        check_dense(mine, title)
        if root != self._rank:
            self._check_not_given(outputs, root, title, "outputs")
            return self._gather([], mine, root, opts, title)
        with self._at_root(title):
            one(outputs, title, "lists of outputs (at the root)")
            self._check_parts(outputs[0], mine, title, equal=True)
        return self._gather(outputs[0], mine, root, opts, title)

    @takes(c10d.GatherOptions, "root", "timeout")
    def gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> PythonWork:
        """Torch's: into one tensor of the root's."""
        title = "unisono:gather_single"
        self._check_root(opts.rootRank, title)
        check_dense(input, title)
        root = int(opts.rootRank)
        if root == self._rank:
            with self._at_root(title):
                self._check_times(input, output, title, "output", "input")
                check_writable(output, title)
        return self._gather([output] if root == self._rank else [], input, root, opts, title, [output])

    gather_into_tensor = gather_single

    def _gather(
        self, outs: Tensors, mine: torch.Tensor, root: int, opts: Any, title: str, held: Tensors | None = None
    ) -> PythonWork:
        """held: by the future, if not `outs`."""
        source, landing = flat(packed(mine)), landing_for(outs) if outs else None
        memory = None if landing is None else flat(landing)
        plan = self._plan(title, lambda **o: self._group.gather(source, memory, root, **o), [mine], held or outs)
        if landing is None:  # blocking, it would return new arrays at the root alone: there is nothing to return here
            return self._launch(plan, opts)
        return self._launch(landed(plan, outs, landing), opts)

    @takes(c10d.ScatterOptions, "root", "timeout", lists=True)
    def scatter(self, outputs: Tensors, inputs: Lists, opts: Any) -> PythonWork:
        """Torch's: lists at the root alone."""
        title = "unisono:scatter"
        one(outputs, title, "outputs")
        self._check_root(opts.rootRank, title)
        out, root = outputs[0], int(opts.rootRank)
        check_dense(out, title)
        check_writable(out, title)
        source, sent = None, Tensors()
        if root == self._rank:
            with self._at_root(title):
                one(inputs, title, "lists of inputs (at the root)")
                self._check_parts(inputs[0], out, title, equal=True, written=False)
            source, sent = flat(joined(inputs[0])), inputs[0]
        else:
            self._check_not_given(inputs, root, title, "inputs")
        landing = landing_for(outputs)
        memory = flat(landing)
        plan = self._plan(title, lambda **o: self._group.scatter(source, memory, root, **o), sent, outputs)
        return self._launch(landed(plan, outputs, landing), opts)

"""all_to_all, barrier."""

from __future__ import annotations

from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

from unisono.torch.pure._calls import Calls, Tensors, counts_of, landed, landing_for
from unisono.torch.pure._errors import translating
from unisono.torch.pure._forms import takes
from unisono.torch.pure._tensors import check, check_same_type, check_writable, flat, joined, packed
from unisono.torch.pure._work import PythonWork, begun


class Exchanges(Calls):
    """Each checks its arguments before anything is sent."""

    @takes(c10d.AllToAllOptions, "timeout")
    def all_to_all_single(
        self, output: torch.Tensor, input: torch.Tensor, output_split_sizes: Any, input_split_sizes: Any, opts: Any
    ) -> PythonWork:
        """Torch's, also called alltoall_base: rows of dimension 0."""
        title = "unisono:all_to_all"
        check_same_type([output], input, title)
        sent = self._rows(input_split_sizes, input, "input", title)
        got = self._rows(output_split_sizes, output, "output", title)
        check_writable(output, title)
        if not input_split_sizes and not output_split_sizes:
            equal = input.numel() == output.numel()
            check(
                equal,
                *(title, ": without split sizes input (", input.numel(), " elements) and output (", output.numel()),
                ") must have equal sizes",
            )
            sent = got = []
        return self._all_to_all([output], packed(input), sent, got, opts, title)

    alltoall_base = all_to_all_single

    @takes(c10d.AllToAllOptions, "timeout")
    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any) -> PythonWork:
        """Torch's: one tensor for each rank."""
        title = "unisono:all_to_all"
        for tensors in (inputs, outputs):
            n = len(tensors)
            check(
                n == self._size, title, ": a list has ", n, " tensors; ", self._size, " are needed, one for each rank"
            )
        check_same_type(inputs, inputs[0], title)
        check_same_type(outputs, inputs[0], title)
        for out in outputs:
            check_writable(out, title)
        sent, got = ([t.numel() for t in tensors] for tensors in (inputs, outputs))
        return self._all_to_all(outputs, joined(inputs), sent, got, opts, title)

    def _all_to_all(
        self, outs: Tensors, whole: torch.Tensor, sent: list[int], got: list[int], opts: Any, title: str
    ) -> PythonWork:
        more: dict[str, Any] = {}
        if sent or got:
            a, b = sent[self._rank], got[self._rank]
            check(a == b, title, ": rank ", self._rank, " sends ", a, " elements to itself but expects ", b)
            more = {**counts_of(whole, sent, always=True)}
            more["output_counts"] = counts_of(whole, got, always=True)["counts"]
        source, landing = flat(whole), landing_for(outs)
        memory = flat(landing)
        plan = self._plan(title, lambda **o: self._group.all_to_all(source, memory, **more, **o), [whole], outs)
        return self._launch(landed(plan, outs, landing), opts)

    def _rows(self, splits: Any, t: torch.Tensor, side: str, title: str) -> list[int]:
        rows = t.numel() if t.dim() == 0 else t.size(0)
        row = t.numel() // rows if rows else 0
        if not splits:
            good = rows % self._size == 0
            where = f"dimension 0 of the {side} has {rows} rows, which {self._size} ranks cannot share equally"
            check(good, title, ": ", where, "; give split sizes")
            return [rows // self._size * row] * self._size
        number = len(splits)
        check(
            number == self._size,
            *(title, ": ", number, " ", side, " split sizes; ", self._size, " are needed, one for each rank"),
        )
        for n in splits:
            check(n >= 0, title, ": an ", side, " split size is ", n)
        total = sum(splits)
        where = f"but dimension 0 of the {side} has {rows} rows"
        check(total == rows, title, ": the ", side, " split sizes add up to ", total, ", ", where)
        return [n * row for n in splits]

    @takes(c10d.BarrierOptions, "timeout")
    def barrier(self, opts: Any) -> PythonWork:
        """Behind all that was enqueued before it: collectives of a group run one after the other."""
        plan = self._plan("unisono:barrier", lambda **o: self._group.barrier(**o), [], [])
        if not opts.asyncOp:
            return self._launch(plan, opts)
        plan.earlier = self._flights.landing()
        with translating(plan.what, self._flights.health):
            return begun(plan, timeout=self._limit(opts.timeout), async_op=True)

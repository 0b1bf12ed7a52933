"""How a collective of PythonGroup is checked, run, and brought to its tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from unisono import _core
from unisono.torch.pure._errors import translating
from unisono.torch.pure._tensors import (
    adjoining,
    check,
    check_dense,
    check_same_type,
    check_writable,
    scale,
    settle_into,
)
from unisono.torch.pure._work import Flights, Outcome, Plan, PythonWork, begun

Tensors = list[torch.Tensor]
Lists = list[Tensors]


def outcome_of(tensors: Sequence[torch.Tensor]) -> Outcome:
    """A list of the results."""
    kept = list(tensors)
    return Outcome(kept, lambda: kept)


class Calls:
    """What all collectives need. Texts of what is refused are those of the C++ part."""

    _group: _core.Group
    _flights: Flights
    _rank: int
    _size: int
    _title: Callable[[str], str]
    _limit: Callable[..., float]
    abort_because: Callable[[str], None]

    def _plan(self, title: str, run: Callable[..., Any], inputs: Tensors, result: Tensors | Outcome) -> Plan:
        outcome = result if isinstance(result, Outcome) else outcome_of(result)
        return Plan(title, self._title(title), run, inputs, outcome, self._flights)

    def _launch(self, plan: Plan, opts: Any) -> PythonWork:
        limit = self._limit(opts.timeout)
        with translating(plan.what, self._flights.health):
            if opts.asyncOp:
                return begun(plan, timeout=limit, async_op=True)
            with self._flights.caller(), plan.recording():
                plan.run(timeout=limit)
        self._flights.settle()
        if plan.finish is not None:
            plan.finish()
        return PythonWork(plan, None)

    @contextmanager
    def _at_root(self, title: str) -> Iterator[None]:
        """Checks of what the root alone was given: when one fails the others, who wait for it, hear why."""
        try:
            yield
        except RuntimeError as error:
            if self._size > 1:
                self.abort_because(f"the root of {title} was given something wrong: {error}")
                raise RuntimeError(f"{error}. The group is aborted: the other ranks wait for its root") from None
            raise

    def _check_root(self, root: int, title: str) -> None:
        good = 0 <= root < self._size
        check(good, title, ": root ", root, " is out of range: the group has ranks 0 to ", self._size - 1)

    def _check_not_given(self, lists: Lists, root: int, title: str, role: str) -> None:
        given = bool(lists) and bool(lists[0])
        check(not given, title, ": rank ", self._rank, f" gave {role}, but rank ", root, " is the root")

    def _check_parts(
        self, parts: Tensors, own: torch.Tensor, title: str, equal: bool = False, written: bool = True
    ) -> None:
        n = len(parts)
        check(n == self._size, title, ": the list has ", n, " tensors; ", self._size, " are needed, one for each rank")
        check_same_type(parts, own, title)
        for i, part in enumerate(parts):
            if written:
                check_writable(part, title)
            check(
                not equal or part.numel() == own.numel(),
                *(title, ": tensor ", i, " of the list has ", part.numel(), " elements, the rank's own tensor "),
                *(own.numel(), "; only all_gather and reduce_scatter take parts of different sizes"),
            )

    def _check_times(self, part: torch.Tensor, whole: torch.Tensor, title: str, big: str, small: str) -> None:
        check_dense(part, title)
        check_same_type([whole], part, title)
        check(
            whole.numel() == part.numel() * self._size,
            *(title, ": the ", big, " has ", whole.numel(), " elements and the ", small, " ", part.numel(), "; the "),
            *(big, " must have ", self._size, " times as many, a part for each rank"),
        )


def one(things: Sequence[Any], title: str, role: str) -> None:
    check(len(things) == 1, title, ": ", len(things), " ", role, " were given, one is needed")


def as_many(inputs: Tensors, outputs: Tensors, title: str) -> None:
    good = len(inputs) > 0 and len(inputs) == len(outputs)
    check(good, title, ": ", len(inputs), " inputs and ", len(outputs), " outputs; as many of each are needed")
    check_same_type(outputs, inputs[0], title)
    check_same_type(inputs, inputs[0], title)


def counts_of(like: torch.Tensor, counts: list[int], always: bool = False) -> dict[str, Any]:
    """The parts' sizes in flat()'s elements, where they differ."""
    if not always and len(set(counts)) < 2:
        return {}
    return {"counts": [n * scale(like) for n in counts]}


def landing_for(outs: Tensors) -> torch.Tensor:
    """Where results come to: adjoining(), or new memory for all of them."""
    together = adjoining(outs)
    if together is not None:
        return together
    return torch.empty(sum(t.numel() for t in outs), dtype=outs[0].dtype)


def landed(plan: Plan, outs: Tensors, landing: torch.Tensor) -> Plan:
    """With the copy out of the landing, where it is not the tensor itself."""
    together = adjoining(outs)
    if together is None or (together.numel() and together.data_ptr() != landing.data_ptr()):
        plan.finish = lambda: settle_into(outs, landing)
    return plan

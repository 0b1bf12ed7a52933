"""The forms in which c10d's collectives can be called: with options, or with a root, an operation, a time-out.

Torch's own functions give options. Programs that call a group's methods take the others, which torch's C++ has as
overloads: `group.allreduce(x, ReduceOp.MAX)`, `group.broadcast(x, root=0)`, `group.barrier(timeout)`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import torch

FIELDS = {"root": "rootRank", "op": "reduceOp", "timeout": "timeout"}
"""What c10d's options call them."""
Method = TypeVar("Method", bound=Callable[..., Any])


def takes(options: Callable[[], Any], *fields: str, lists: bool = False) -> Callable[[Method], Method]:
    """A method (self, tensors..., opts) that also takes `fields`, in this order, in place of options.

    lists: a call with one tensor in place of a list of tensors means lists with one element each.
    """

    def around(method: Method) -> Method:
        names = list(inspect.signature(method).parameters)[1:-1]

        @functools.wraps(method)
        def call(self: Any, *given: Any, **named: Any) -> Any:
            tensors = list(given[: len(names)])
            # Torch's names of one argument differ from overload to overload: "output", "output_tensors", ....
            for name in names[len(tensors) :]:
                tensors.append(_named(method, name, names, named))
            rest = given[len(names) :]
            if lists and any(isinstance(t, torch.Tensor) for t in tensors):
                tensors = [[t] for t in tensors]
            return method(self, *tensors, _options(method, rest, named))

        return call  # type: ignore[return-value]

    def _named(method: Method, wanted: str, names: list[str], named: dict[str, Any]) -> Any:
        others = ("opts", *fields, *names)
        alike = (name for name in named if name not in others and name.lower().startswith(wanted.rstrip("s")))
        name = wanted if wanted in named else next(alike, None)
        if name is None:
            raise TypeError(f"{method.__name__}() misses the argument {wanted}")
        return named.pop(name)

    def _options(method: Method, rest: tuple[Any, ...], named: dict[str, Any]) -> Any:
        chosen: dict[str, Any] = dict(zip(fields, rest, strict=False)) | named
        if rest and type(rest[0]).__name__.endswith("Options"):
            chosen = {"opts": rest[0]}
        if "opts" in chosen and len(chosen) == 1 and len(rest) < 2:
            return chosen["opts"]
        unknown = [name for name in chosen if name not in fields]
        if unknown or len(rest) > len(fields):
            what = f"the argument {unknown[0]}" if unknown else f"{len(rest)} arguments behind the tensors"
            raise TypeError(f"{method.__name__}() does not take {what}; it takes options, or {', '.join(fields)}")
        made = options()
        for name, value in chosen.items():
            if value is not None:
                setattr(made, FIELDS[name], value)
        return made

    return around

"""What became of a function on one rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Failure:
    """An exception: the names of its class and bases, its message, its fields, where it was raised."""

    kinds: list[str]
    message: str
    fields: dict[str, Any]
    traceback: str

    @property
    def kind(self) -> str:
        """The name of its class."""
        return self.kinds[0]


@dataclass
class Outcome:
    """A value, or a failure; neither when the process ended before it could say."""

    rank: int
    value: Any = None
    failure: Failure | None = None
    missing: bool = False
    seconds: float = 0.0

    @staticmethod
    def from_json(rank: int, data: dict[str, Any] | None) -> Outcome:
        """From what the worker wrote; None when it wrote nothing."""
        if data is None:
            return Outcome(rank, missing=True)
        failure = Failure(**data["failure"]) if data["failure"] is not None else None
        return Outcome(rank, data["value"], failure, seconds=data["seconds"])


@dataclass
class Job:
    """The outcomes of all ranks, and what the processes printed."""

    outcomes: list[Outcome]
    output: str = ""
    status: int = 0
    notes: list[str] = field(default_factory=list)

    def values(self) -> list[Any]:
        """What each rank returned; fails the test with the traceback of the first rank that did not."""
        require_success(self.outcomes, self.output)
        return [outcome.value for outcome in self.outcomes]

    def failure(self, rank: int) -> Failure:
        """What a rank raised; fails the test when it did not."""
        outcome = self.outcomes[rank]
        assert not outcome.missing, f"rank {rank} ended without a word\n{self.output}"
        assert outcome.failure is not None, f"rank {rank} returned {outcome.value!r} instead of raising\n{self.output}"
        return outcome.failure


def require_success(outcomes: Sequence[Outcome], output: str) -> None:
    """Fail the test unless every rank returned."""
    troubles = []
    for outcome in outcomes:
        if outcome.missing:
            troubles.append(f"rank {outcome.rank} ended without a word")
        elif outcome.failure is not None:
            troubles.append(f"rank {outcome.rank}:\n{outcome.failure.traceback}")
    assert not troubles, "\n".join([*troubles, output])

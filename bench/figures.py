"""What was measured, what must be reached, and the table of both.

Programs take turns, and a ratio is one of times of the same turn: the machine's state (which cores, whose memory, who
else runs) changes between turns by more than what is compared. The figure is the median of the turns' ratios.
"""

import statistics
from dataclasses import dataclass, field

from libraries import Peer, Sample

MOST_RATIO = 1000.0  # of what was measured as nothing


@dataclass(frozen=True)
class Bar:
    """What has to be reached.

    With `against`: at least `least` times the speed of the best of them (None: no bar, only a comparison). Without: at
    most `most` of the unit that `ours` was measured in.
    """

    where: str
    ranks: int
    bytes: int
    against: tuple[str, ...] = ()
    least: float | None = None
    ours: str = "unisono"
    most: float | None = None
    unit: str = "us"


@dataclass
class Figures:
    """Every program's times turn by turn, in us (or another unit, if all of a bar's are), and why some have none."""

    times: dict[tuple[str, str, int, int], list[float]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def add(self, where: str, samples: list[Sample]) -> None:
        for s in samples:
            self.times.setdefault((where, s.peer, s.ranks, s.bytes), []).append(s.time_us)

    def of(self, where: str, peer: str, ranks: int, size: int) -> list[float]:
        """Turn by turn; empty when it was not measured."""
        return self.times.get((where, peer, ranks, size), [])

    def row(self, bar: Bar) -> dict:
        """The bar with what was measured; `ratio` >= 1 passes."""
        row = {"where": bar.where, "ranks": bar.ranks, "bytes": bar.bytes, "ours": bar.ours}
        row |= {"against": " or ".join(bar.against), "least": bar.least and round(bar.least, 3), "most": bar.most}
        row |= {"unit": bar.unit, "verdict": "SKIPPED"}
        ours = self.of(bar.where, bar.ours, bar.ranks, bar.bytes)
        others = [times for name in bar.against if (times := self.of(bar.where, name, bar.ranks, bar.bytes))]
        if not ours or (bar.against and not others):
            missing = [bar.ours] * (not ours) + list(bar.against) * (not others)
            row["reason"] = "; ".join(self.reasons.get(name, f"{name} was not measured") for name in missing)
            return row
        row["measured"] = statistics.median(ours)
        if not bar.against:
            row["ratio"] = round(bar.most / max(row["measured"], bar.most / MOST_RATIO), 3)
            return row | {"verdict": "PASS" if row["ratio"] >= 1 else "FAIL"}
        best = [min(turn) for turn in zip(*others, strict=False)]
        speed = statistics.median(theirs / own for theirs, own in zip(best, ours, strict=False))
        row |= {"theirs": statistics.median(best), "speed": round(speed, 3)}
        if bar.least is None:
            return row | {"verdict": "-"}
        row["ratio"] = round(speed / bar.least, 3)
        return row | {"verdict": "PASS" if row["ratio"] >= 1 else "FAIL"}


TURNS = 7


def turns_of(where: str) -> str:
    """Where `by_turns` puts its figures: apart from those of the rounds, so that both go on turn by turn."""
    return f"{where}, by turns"


def by_turns(
    figures: Figures,
    where: str,
    peers: list[Peer],
    ranks: int,
    size: int,
    seconds: float,
    collective: str = "all_reduce",
) -> None:
    """Short turns one right after the other, forwards and backwards, of a round's `seconds` each all together."""
    for turn in range(TURNS):
        for peer in peers[:: -1 if turn % 2 else 1]:
            figures.add(turns_of(where), peer.turn(ranks, [size], seconds / TURNS, collective))

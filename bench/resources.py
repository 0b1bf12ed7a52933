"""The group `resources` of bench/compare: how long a job takes to start, and what its ranks have in shared memory.

start    from the launcher's start to the end of the first all_reduce of the last rank, of programs in C++ and C
memory   what a rank has of staging when everybody has talked with everybody, and what a second group adds
"""

import json
import sys
import time
from argparse import Namespace

import libraries
import report
from figures import Bar, Figures
from libraries import PROGRAMS, LibraryError, Sample

NAME = "resources"
START, STAGING, SECOND = "start to first all_reduce", "staging of a rank", "a second group adds"
STARTS = 5  # jobs of each a round
BARS = (
    Bar(START, 8, 8, most=60_000.0),
    Bar(START, 8, 8, ("openmpi",)),
    *(Bar(STAGING, ranks, 0, most=1024.0 * most, unit="KiB") for ranks, most in ((2, 8), (8, 16), (64, 32))),
    *(Bar(SECOND, ranks, 0, most=64.0, unit="KiB") for ranks in (2, 8, 64)),
)


def parse_ends(name: str, ranks: int, begin: float, output: str) -> list[Sample]:
    """Of a job whose ranks have printed when they had done their first all_reduce, on the clock of `begin`."""
    ends = [json.loads(line[line.index("{") :])["end"] for line in output.splitlines() if "{" in line]
    if len(ends) != ranks:
        raise LibraryError(f"{name}: {len(ends)} of {ranks} ranks have said when they were done")
    return [Sample(name, ranks, 8, 1e6 * (max(ends) - begin))]


class UnisonoStart(libraries.Unisono):
    """A job of unisono_start."""

    def find(self) -> None:
        super().find()
        self.program = self.build("unisono_start")

    def run(self, ranks: int, *_: object) -> list[Sample]:
        begin = time.clock_gettime(time.CLOCK_MONOTONIC)
        output = libraries.run_program([self.command, "run", "-n", str(ranks), "--", self.program])
        return parse_ends(self.name, ranks, begin, output)


class OpenMpiStart(libraries.Peer):
    """A job of mpi_start."""

    name, title = "openmpi", "Open MPI"

    def find(self) -> None:
        self.mpi = libraries.openmpi()
        self.program = self.mpi.build("mpi_start")

    def run(self, ranks: int, *_: object) -> list[Sample]:
        begin = time.clock_gettime(time.CLOCK_MONOTONIC)
        return parse_ends(self.name, ranks, begin, self.mpi.job(ranks, [self.program]))


def measure_start(args: Namespace, figures: Figures) -> None:
    """Both by turns."""
    peers: list[libraries.Peer] = [UnisonoStart(args.unisono), OpenMpiStart()]
    for peer in peers:
        peer.prepare()
    for turn in range(args.rounds):
        print(f"{NAME}: start, round {turn + 1}/{args.rounds}", file=sys.stderr, flush=True)
        for _ in range(STARTS):
            for peer in peers:
                figures.add(START, peer.turn(8, [8], args.seconds))
    figures.reasons |= {peer.name: peer.reason for peer in peers if peer.reason}


def measure_memory(args: Namespace, figures: Figures) -> None:
    """Once: pages are not noisy."""
    unisono = libraries.Unisono(args.unisono)
    unisono.find()
    python = args.python or unisono.command.parent / "python"
    for ranks in (2, 8, 64):
        print(f"{NAME}: memory, {ranks} ranks", file=sys.stderr, flush=True)
        program = [python, PROGRAMS / "unisono_memory.py"]
        output = libraries.run_program([unisono.command, "run", "-n", str(ranks), "--no-prefix", "--", *program])
        row = next(json.loads(line) for line in output.splitlines() if line.startswith("{"))
        figures.add(STAGING, [Sample("unisono", ranks, 0, row["staging"] / 1024)])
        figures.add(SECOND, [Sample("unisono", ranks, 0, row["second"] / 1024)])


def measure(args: Namespace) -> list[dict]:
    """A row for each bar."""
    figures = Figures()
    measure_start(args, figures)
    try:
        measure_memory(args, figures)
    except LibraryError as failure:
        print(f"{NAME}: SKIPPED: {failure}", file=sys.stderr)
        figures.reasons["unisono"] = str(failure)
    return [figures.row(bar) for bar in BARS]


def to_markdown(rows: list[dict]) -> str:
    return "\n".join(["# What a job takes", "", *report.bars_table(rows)]) + "\n"

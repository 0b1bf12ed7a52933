"""The group `neighbour` of bench/compare: what a program that only computes loses while ranks wait beside it.

All ranks but one are in an all_reduce and wait for the one that stays away. As many threads as there are cores, and one
alone, count how often they get round, by turns without a job and beside one of each library: us of a core a pass.
"""

import json
import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

import libraries
import report
from figures import Bar, Figures
from libraries import LibraryError, Sample

NAME = "neighbour"
ALONE = "nobody"  # beside whom it is fastest
RANKS = (2, 4)
SECONDS = 1.0  # of a turn: a scheduler's slices must not count
TURNS = 3  # a round


def where(threads: int) -> str:
    return f"a pass of {threads} neighbour{'s' * (threads > 1)}"


def thread_counts() -> list[int]:
    return sorted({1, len(os.sched_getaffinity(0))})


def bars() -> list[Bar]:
    """No slowdown; 0.95 is as near to it as two cores that others use, too, can be told."""
    pairs = [(ranks, threads) for ranks in RANKS for threads in thread_counts()]
    return [
        bar
        for ranks, threads in pairs
        for bar in (
            Bar(where(threads), ranks, 0, (ALONE,), 0.95),
            Bar(where(threads), ranks, 0, ("openmpi",)),
            Bar(where(threads), ranks, 0, (ALONE,), ours="openmpi"),
        )
    ]


class Nobody(libraries.Peer):
    """No job at all."""

    name, title = ALONE, "no job"

    def find(self) -> None:
        self.neighbour = libraries.compile_program("g++", "neighbour.cc", "-O2", "-std=c++20", "-pthread")

    def count(self, ranks: int, threads: int) -> Sample:
        row = json.loads(libraries.run_program([self.neighbour, str(SECONDS), str(threads)]))
        return Sample(self.name, ranks, 0, 1e6 * SECONDS * threads / max(row["passes"], 1))

    def run(self, ranks: int, sizes: list[int], *_: object) -> list[Sample]:
        """`sizes` says how many threads."""
        return [self.count(ranks, sizes[0])]


class Waiting(Nobody):
    """A job that waits."""

    def __init__(self, name: str, title: str) -> None:
        super().__init__()
        self.name, self.title = name, title

    def command(self, ranks: int) -> tuple[list[str | Path], dict[str, str]]:
        """All but the program's argument, and what is added to the environment."""
        raise NotImplementedError

    def run(self, ranks: int, sizes: list[int], *_: object) -> list[Sample]:
        command, environment = self.command(ranks)
        with tempfile.TemporaryDirectory() as folder:
            fifo = Path(folder) / "gate"
            os.mkfifo(fifo)
            job = subprocess.Popen(
                [*map(str, command), str(fifo)],
                env=os.environ | environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            try:
                return [self.count_beside(job, ranks, sizes[0], fifo)]
            finally:
                job.kill()
                job.communicate()

    def count_beside(self, job: subprocess.Popen, ranks: int, threads: int, fifo: Path) -> Sample:
        if not any("waiting" in line for line in job.stdout):
            raise LibraryError(f"the job of {ranks} ranks ended before it waited")
        sample = self.count(ranks, threads)
        if job.poll() is not None:
            raise LibraryError(f"the job of {ranks} ranks did not wait for its rank 0")
        fifo.write_text(".")
        if status := job.wait(libraries.TIME_LIMIT):
            raise LibraryError(f"the job of {ranks} ranks ended with {status}")
        return sample


class WaitingUnisono(Waiting):
    def __init__(self, command: Path | None) -> None:
        super().__init__("unisono", "unisono")
        self.unisono = libraries.Unisono(command)

    def find(self) -> None:
        super().find()
        self.unisono.find()
        self.program = self.unisono.build("unisono_wait")

    def command(self, ranks: int) -> tuple[list[str | Path], dict[str, str]]:
        return [self.unisono.command, "run", "-n", str(ranks), "--", self.program], {}


class WaitingOpenMpi(Waiting):
    def __init__(self) -> None:
        super().__init__("openmpi", "Open MPI")
        self.mpi = libraries.openmpi()

    def find(self) -> None:
        super().find()
        self.program = self.mpi.build("mpi_wait")

    def command(self, ranks: int) -> tuple[list[str | Path], dict[str, str]]:
        return [self.mpi.launcher(), *self.mpi.launch, "-np", str(ranks), self.program], self.mpi.environment


def measure(args: Namespace) -> list[dict]:
    """A row for each bar."""
    figures = Figures()
    peers: list[libraries.Peer] = [Nobody(), WaitingUnisono(args.unisono), WaitingOpenMpi()]
    for peer in peers:
        peer.prepare()
    for turn in range(args.rounds):
        for ranks in RANKS:
            print(f"{NAME}: round {turn + 1}/{args.rounds}, {ranks} ranks", file=sys.stderr, flush=True)
            for threads in thread_counts():
                for _ in range(TURNS):
                    for peer in peers:
                        figures.add(where(threads), peer.turn(ranks, [threads], SECONDS))
    figures.reasons |= {peer.name: peer.reason for peer in peers if peer.reason}
    return [figures.row(bar) for bar in bars()]


def to_markdown(rows: list[dict]) -> str:
    return "\n".join(["# What a neighbour loses while ranks wait", "", *report.bars_table(rows)]) + "\n"

"""The group `resources` of bench/compare: how long a job takes to start, and what its ranks have in shared memory.

start    from the launcher's start to the end of the first all_reduce of the last rank, of programs in C++ and C
memory   what a rank has of staging when everybody has talked with everybody, and what a second group adds
"""

import json
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable

import libraries
import report
from figures import Bar, Figures
from libraries import AS_ROOT, PROGRAMS, LibraryError, Sample

NAME = "resources"
START, STAGING, SECOND = "start to first all_reduce", "staging of a rank", "a second group adds"
STARTS = 5  # jobs of each a round
BARS = (
    Bar(START, 8, 8, most=60_000.0),
    Bar(START, 8, 8, ("openmpi",)),
    *(Bar(STAGING, ranks, 0, most=1024.0 * most, unit="KiB") for ranks, most in ((2, 8), (8, 16), (64, 32))),
    *(Bar(SECOND, ranks, 0, most=64.0, unit="KiB") for ranks in (2, 8, 64)),
)


def latest(name: str, ranks: int, command: list, environment: dict[str, str] | None = None) -> list[Sample]:
    """Of a job whose ranks print when they have done their first all_reduce, on the clock that Python has, too."""
    begin = time.clock_gettime(time.CLOCK_MONOTONIC)
    output = libraries.run_program(command, environment)
    ends = [json.loads(line[line.index("{") :])["end"] for line in output.splitlines() if "{" in line]
    if len(ends) != ranks:
        raise LibraryError(f"{name}: {len(ends)} of {ranks} ranks have said when they were done")
    return [Sample(name, ranks, 8, 1e6 * (max(ends) - begin))]


def measure_start(unisono: libraries.Unisono, args: Namespace, figures: Figures) -> None:
    """Both by turns; without Open MPI there is nothing to compare with."""
    program = unisono.build("unisono_start")
    jobs: list[Callable[[], list[Sample]]] = [
        lambda: latest("unisono", 8, [unisono.command, "run", "-n", "8", "--", program])
    ]
    try:
        mpi = libraries.ROOT / "build/peers/mpi_start"
        libraries.run_program(["mpicc.openmpi", "-O2", "-o", mpi, PROGRAMS / "mpi_start.c"])
        launch = ["mpirun.openmpi", "--oversubscribe", "-np", "8", mpi]
        jobs.append(lambda: latest("openmpi", 8, launch, AS_ROOT))
    except LibraryError as failure:
        figures.reasons["openmpi"] = str(failure)
    for turn in range(args.rounds):
        print(f"{NAME}: start, round {turn + 1}/{args.rounds}", file=sys.stderr, flush=True)
        for _ in range(STARTS):
            for job in jobs:
                figures.add(START, job())


def measure_memory(unisono: libraries.Unisono, args: Namespace, figures: Figures) -> None:
    """Once: pages are not noisy."""
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
    figures, unisono = Figures(), libraries.Unisono(args.unisono)
    try:
        unisono.find()
        measure_start(unisono, args, figures)
        measure_memory(unisono, args, figures)
    except (LibraryError, subprocess.SubprocessError) as failure:
        print(f"{NAME}: SKIPPED: {failure}", file=sys.stderr)
        figures.reasons["unisono"] = str(failure)
    return [figures.row(bar) for bar in BARS]


def to_markdown(rows: list[dict]) -> str:
    return "\n".join(["# What a job takes", "", *report.bars_table(rows)]) + "\n"

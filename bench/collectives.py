"""The group `collectives` of bench/compare: every collective and send beside Open MPI, MPICH and the memory's limit."""

import json
import statistics
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

import libraries
import report
from libraries import LibraryError, Peer, Sample

NAME = "collectives"
ALL = ("broadcast", "reduce", "all_gather", "reduce_scatter", "all_to_all", "gather", "scatter", "send")
SIZES = {"send": [8, 64 << 10, 64 << 20]}
COMMON_SIZES = [64 << 10, 1 << 20, 64 << 20]
LEAST, LEAST_OF_LIMIT = 1.3, 1 / 1.3
SEND_LEAST = {8: 1.0}  # times as fast as the best peer; larger messages 1.5


class Named(Peer):
    """A library that can do any collective by its name."""

    def run_named(self, collective: str, ranks: int, sizes: list[int], seconds: float) -> list[Sample]:
        raise NotImplementedError


class Unisono(Named):
    """Through `unisono bench`, and a program for send."""

    name, title = "unisono", "unisono"

    def __init__(self, command: Path | None) -> None:
        super().__init__()
        self.bench = libraries.Unisono(command)
        self.send = libraries.ROOT / "build/peers/unisono_send"

    def find(self) -> None:
        self.bench.find()
        python = self.bench.command.parent / "python"
        code = "import importlib.util as u; print(u.find_spec('unisono').submodule_search_locations[0])"
        package = Path(libraries.run_program([python, "-c", code]).strip())
        self.send.parent.mkdir(parents=True, exist_ok=True)
        use = ["-I", package / "include", "-L", package, f"-Wl,-rpath,{package}"]
        source = libraries.PROGRAMS / "unisono_send.cc"
        libraries.run_program(["g++", "-O2", "-std=c++20", *use, "-o", self.send, source, "-lunisono"])

    def run_named(self, collective: str, ranks: int, sizes: list[int], seconds: float) -> list[Sample]:
        command = self.bench.command
        if collective == "send":
            program = [self.send, str(seconds), *map(str, sizes)]
            output = libraries.run_program([command, "run", "-n", str(ranks), "--", *program])
            return libraries.parse_lines(self.name, output)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows.json"
            options = ["-n", ranks, "--sizes", ",".join(map(str, sizes)), "--seconds", seconds, "--json", file]
            libraries.run_program([command, "bench", collective, *map(str, options)])
            rows = json.loads(file.read_text())
        in_place = collective != "all_to_all"
        return [Sample(self.name, r["ranks"], r["bytes"], r["time_us"]) for r in rows if r["in_place"] == in_place]


class Mpi(Named):
    """Debian's Open MPI or MPICH."""

    def __init__(self, mpi: libraries.Mpi) -> None:
        super().__init__()
        self.name, self.title, self.mpi = mpi.name, mpi.title, mpi

    def find(self) -> None:
        self.mpi.find()

    def run_named(self, collective: str, ranks: int, sizes: list[int], seconds: float) -> list[Sample]:
        return self.mpi.run_named(collective, ranks, sizes, seconds)


class Limit(Named):
    """What memory allows, or memory that ranks cannot map from each other, from so many bytes on."""

    def __init__(self, limit: libraries.Limit, least: int) -> None:
        super().__init__()
        self.name, self.title, self.limit, self.least = limit.name, limit.title, limit, least

    def find(self) -> None:
        self.limit.find()

    def run_named(self, collective: str, ranks: int, sizes: list[int], seconds: float) -> list[Sample]:
        return self.limit.run_named(collective, ranks, [s for s in sizes if s >= self.least], seconds)


def measure(args: Namespace) -> list[dict]:
    """Every row: medians over rounds of each library, and by how much unisono passes its floors."""
    peers: list[Named] = [Unisono(args.unisono), Limit(libraries.Limit(), report.LARGE), Limit(libraries.Ordinary(), 0)]
    peers += [Mpi(peer) for peer in libraries.make_all(args) if isinstance(peer, libraries.Mpi)]
    for peer in peers:
        peer.prepare()
        if peer.reason:
            print(f"{NAME}: {peer.title}: SKIPPED: {peer.reason}", file=sys.stderr)
    found: dict[tuple[str, int, int], dict[str, list[float]]] = {}
    for turn in range(args.rounds):
        for collective in args.collectives:
            for ranks in [2] if collective == "send" else args.ranks:
                print(f"round {turn + 1}/{args.rounds}: {collective}, {ranks} ranks", file=sys.stderr, flush=True)
                for peer in peers:
                    for sample in run(peer, collective, ranks, args):
                        times = found.setdefault((collective, ranks, sample.bytes), {})
                        times.setdefault(peer.name, []).append(sample.time_us)
    return [judge(*key, {name: statistics.median(t) for name, t in times.items()}) for key, times in found.items()]


def run(peer: Named, collective: str, ranks: int, args: Namespace) -> list[Sample]:
    """One turn; a library that fails is left out from then on, with its reason."""
    if peer.reason:
        return []
    try:
        return peer.run_named(collective, ranks, SIZES.get(collective, COMMON_SIZES), args.seconds)
    except LibraryError as failure:
        peer.reason = str(failure)
        print(f"  {peer.title} failed: {failure}", file=sys.stderr)
        return []


def judge(collective: str, ranks: int, size: int, times: dict[str, float]) -> dict:
    """The row, with its floors: against the better of the peers and, for large ones, the limit."""
    row: dict = {"what": collective, "ranks": ranks, "bytes": size}
    row |= {f"{name}_us": round(time, 3) for name, time in times.items()}
    least = (SEND_LEAST.get(size, 1.5)) if collective == "send" else LEAST
    others = [times[name] for name in ("openmpi", "mpich") if name in times]
    ratios = []
    if "unisono" in times and others:
        row["speedup"] = round(min(others) / times["unisono"], 3)
        ratios.append(row["speedup"] / least)
    if "unisono" in times and "limit" in times and collective != "send":
        row["of_limit"] = round(times["limit"] / times["unisono"], 3)
        ratios.append(row["of_limit"] / LEAST_OF_LIMIT)
    row["least"] = least
    row["ratio"] = round(min(ratios), 3) if ratios else None
    row["verdict"] = "SKIPPED" if not ratios else "PASS" if row["ratio"] >= 1 else "FAIL"
    return row


def to_markdown(rows: list[dict]) -> str:
    """A table."""
    names = ("unisono", "openmpi", "mpich", "limit", "ordinary")
    lines = ["# Every collective of f32, in place, on one host, and a message one way", ""]
    lines.append("us, medians; at least 1.3 times the better peer, and 1/1.3 of what the memory allows (64 MiB).")
    lines += ["", "| call | ranks | bytes | " + " | ".join(report.TITLES[n] for n in names)]
    lines[-1] += " | best other / unisono | at least | of the limit | |"
    lines.append("|---|" + "---:|" * (5 + len(names)) + "---|")
    for r in sorted(rows, key=lambda r: (r["ranks"], r["what"], r["bytes"])):
        cells = [f"{r[f'{n}_us']:.2f}" if f"{n}_us" in r else "-" for n in names]
        tail = [f"{r['speedup']:.2f}" if "speedup" in r else "-", f"{r['least']:g}"]
        tail += [f"{r['of_limit']:.2f}" if "of_limit" in r else "-", r["verdict"]]
        lines.append(f"| {r['what']} | {r['ranks']} | {report.size_text(r['bytes'])} | {' | '.join(cells + tail)} |")
    return "\n".join(lines) + "\n"

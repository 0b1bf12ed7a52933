"""The group `collectives` of bench/compare: every collective and send beside Open MPI, MPICH and the memory's limit."""

import statistics
import sys
from argparse import Namespace

import report
from figures import Bar, Figures, by_turns, turns_of
from libraries import Limit, Mpi, Ordinary, Peer, Unisono, make_all, prepare_all

NAME = "collectives"
ALL = ("broadcast", "reduce", "all_gather", "reduce_scatter", "all_to_all", "gather", "scatter", "send")
RANKS = (2, 4)  # unless others are asked for
SIZES = {"send": [8, 64 << 10, 64 << 20]}
COMMON_SIZES = [64 << 10, 1 << 20, 64 << 20]
COLUMNS = ("unisono", "openmpi", "mpich", "limit", "ordinary")
PEERS = ("openmpi", "mpich")
LEAST, LEAST_OF_LIMIT = 1.3, 1 / 1.3
SEND_LEAST = {8: 1.0}  # times as fast as the best peer; larger messages 1.5


def measure(args: Namespace) -> list[dict]:
    """Every row: medians over rounds of each library, and by how much unisono passes its bars."""
    unisono, limit = Unisono(args.unisono), Limit()
    peers: list[Peer] = [unisono, Ordinary(), *(peer for peer in make_all(args) if isinstance(peer, Mpi))]
    prepare_all([*peers, limit], f"{NAME}: ")
    figures = Figures()
    problems = [
        (collective, ranks)
        for collective in args.collectives
        for ranks in ([2] if collective == "send" else args.ranks or RANKS)
    ]
    for turn in range(args.rounds):
        for collective, ranks in problems:
            print(f"round {turn + 1}/{args.rounds}: {collective}, {ranks} ranks", file=sys.stderr, flush=True)
            for peer in peers:
                figures.add(collective, peer.turn(ranks, sizes_of(collective), args.seconds, collective))
            if collective != "send":
                by_turns(figures, collective, [unisono, limit], ranks, report.LARGE, args.seconds, collective)
    return [judge(figures, *problem, size) for problem in problems for size in sizes_of(problem[0])]


def sizes_of(collective: str) -> list[int]:
    return SIZES.get(collective, COMMON_SIZES)


def judge(figures: Figures, collective: str, ranks: int, size: int) -> dict:
    """The row, with its bars: against the better of the peers and, for large ones, the limit."""
    row: dict = {"what": collective, "ranks": ranks, "bytes": size}
    for name in COLUMNS:
        where = turns_of(collective) if name == "limit" else collective
        if times := figures.of(where, name, ranks, size):
            row[f"{name}_us"] = round(statistics.median(times), 3)
    row["least"] = SEND_LEAST.get(size, 1.5) if collective == "send" else LEAST
    beside_peers = figures.row(Bar(collective, ranks, size, PEERS, row["least"]))
    bars = [beside_peers]
    row["speedup"] = beside_peers.get("speed")
    if collective != "send" and size == report.LARGE:
        bars.append(figures.row(Bar(turns_of(collective), ranks, size, ("limit",), LEAST_OF_LIMIT)))
        row["of_limit"] = bars[-1].get("speed")
    ratios = [bar["ratio"] for bar in bars if "ratio" in bar]
    row["ratio"] = min(ratios, default=None)
    row["verdict"] = "SKIPPED" if not ratios else "PASS" if row["ratio"] >= 1 else "FAIL"
    return row


def to_markdown(rows: list[dict]) -> str:
    """A table."""
    lines = ["# Every collective of f32, in place, on one host, and a message one way", ""]
    lines.append(
        "us, medians; at least 1.3 times the better peer, and 1/1.3 of what the memory allows (64 MiB). "
        "Each ratio is the median of the turns' ratios."
    )
    lines += ["", "| call | ranks | bytes | " + " | ".join(report.TITLES[n] for n in COLUMNS)]
    lines[-1] += " | best other / unisono | at least | of the limit | |"
    lines.append("|---|" + "---:|" * (5 + len(COLUMNS)) + "---|")
    for r in sorted(rows, key=lambda r: (r["ranks"], r["what"], r["bytes"])):
        cells = [f"{r[f'{n}_us']:.2f}" if f"{n}_us" in r else "-" for n in COLUMNS]
        tail = [f"{r[key]:.2f}" if r.get(key) is not None else "-" for key in ("speedup", "of_limit")]
        tail = [tail[0], f"{r['least']:g}", tail[1], r["verdict"]]
        lines.append(f"| {r['what']} | {r['ranks']} | {report.size_text(r['bytes'])} | {' | '.join(cells + tail)} |")
    return "\n".join(lines) + "\n"

"""Measure f32 all_reduce of unisono, Gloo, Open MPI and MPICH side by side on this host.

Every library is driven by a program of ours that measures in the same way: buffers touched beforehand, in place, as
many calls as fit into the same time, per call the time of the slowest rank, the median over calls. The libraries take
turns within each round, so that whatever else the machine does falls on all of them; a time is the median over rounds,
a ratio the median of the ratios of each round.
Writes results.json, results.md and bandwidth.png. The exit status is 1 when unisono misses a bar.
"""

import argparse
import datetime
import json
import statistics
import subprocess
import sys
from pathlib import Path

import all_reduce
import collectives
import first_calls
import libraries
import neighbour
import network
import report
import resources
import torch_pair
from figures import Figures

ROOT = Path(__file__).resolve().parent.parent
NAMES = (
    *libraries.NAMES,
    torch_pair.NAME,
    collectives.NAME,
    first_calls.NAME,
    *network.NAMES,
    resources.NAME,
    neighbour.NAME,
)
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_size(text: str) -> int:
    """Bytes: 8, 64K, 1M; K, M and G are powers of 1024."""
    try:
        return int(text[:-1]) * UNITS[text[-1].upper()] if text[-1:].upper() in UNITS else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 8, 64K or 1M") from None


def size_list(text: str) -> list[int]:
    sizes = [parse_size(part) for part in text.split(",")]
    if any(size < 4 or size % 4 for size in sizes):
        raise argparse.ArgumentTypeError("sizes are of f32 buffers: multiples of 4 bytes")
    return sorted(set(sizes))


def rank_list(text: str) -> list[int]:
    try:
        ranks = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list such as 2,4") from None
    if any(n < 1 for n in ranks):
        raise argparse.ArgumentTypeError("at least one rank is needed")
    return ranks


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/compare", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--ranks",
        type=rank_list,
        help="numbers of ranks, such as 2,4 (default 2,4,8; other collectives, first calls and torch 2,4)",
    )
    parser.add_argument("--sizes", type=size_list, help="bytes of the buffer, such as 8,64K,1M,64M")
    parser.add_argument("--rounds", type=int, help="turns of every library (default 5, with --quick 1)")
    parser.add_argument("--seconds", type=float, help="of calls a size and turn (default 0.5, with --quick 0.15)")
    parser.add_argument("--quick", action="store_true", help="four sizes, one short round: a look, not a measurement")
    parser.add_argument("--only", help=f"some of {','.join(NAMES)}")
    parser.add_argument(
        "--collectives",
        type=lambda text: text.split(","),
        default=list(collectives.ALL),
        help=f"for the group {collectives.NAME}: some of {','.join(collectives.ALL)}",
    )
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "compare", help="folder for the results")
    parser.add_argument("--unisono", type=Path, help="the command (default: .venv/bin/unisono, else from PATH)")
    parser.add_argument(
        "--python", type=Path, help="an interpreter that has the unisono package (default: the one beside the command)"
    )
    parser.add_argument("--torch-python", type=Path, help="an interpreter that has torch")
    parser.add_argument(
        "--install", action="store_true", help="install the peers (Debian packages as root, torch) and stop"
    )
    args = parser.parse_args()
    default = "8,64K,1M,64M" if args.quick else "8,256,4K,16K,64K,256K,1M,4M,16M,64M"
    args.sizes = args.sizes or size_list(default)
    args.rounds = args.rounds or (1 if args.quick else 5)
    args.seconds = args.seconds or (0.15 if args.quick else 0.5)
    if args.only and (unknown := set(args.only.split(",")) - set(NAMES)):
        parser.error(f"--only: no {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    if unknown := set(args.collectives) - set(collectives.ALL):
        parser.error(f"--collectives: no {', '.join(sorted(unknown))}; there are {', '.join(collectives.ALL)}")
    return args


def install() -> None:
    """The peers: Debian's MPIs, mpi4py, torch, and what the plot needs, in exactly the versions that are compared."""
    subprocess.run([ROOT / "tools" / "install_deps.sh", "--peers"], check=True)
    venv = ROOT / "build" / "peers" / "venv"
    for modules, names in ((("torch", "matplotlib"), ("torch", "peers")), (("mpi4py", "numpy"), ("peers",))):
        if libraries.find_python(*modules) is None:
            subprocess.run([sys.executable, "-m", "venv", venv], check=True)
            files = [part for name in names for part in ("-r", ROOT / "tools" / f"requirements-{name}.txt")]
            subprocess.run([venv / "bin" / "pip", "install", "-q", *files], check=True)
    print("bench/compare: the peers are installed")


def combine(figures: Figures) -> list[dict]:
    """The median over rounds of each library, number of ranks and size, with the extremes."""
    rows = []
    for (where, peer, ranks, size), times in figures.times.items():
        if where != all_reduce.NAME:
            continue
        time_us = statistics.median(times)
        row = {"library": peer, "ranks": ranks, "bytes": size, "time_us": round(time_us, 4)}
        row |= {
            "algbw_gbps": float(f"{size / time_us / 1e3:.6g}"),
            "min_us": min(times),
            "max_us": max(times),
            "rounds": len(times),
        }
        rows.append(row)
    return rows


def measure_torch(args: argparse.Namespace) -> list[dict]:
    """torch.distributed over unisono beside Gloo; nothing, with the reason said, where torch is not there."""
    try:
        python = torch_pair.prepare(args.torch_python)
        print("torch.distributed over unisono and Gloo", file=sys.stderr, flush=True)
        return torch_pair.measure(python, args.ranks or collectives.RANKS, args.rounds, args.seconds, args.quick)
    except libraries.LibraryError as failure:
        print(f"{torch_pair.NAME}: SKIPPED: {failure}", file=sys.stderr)
        return []


def main() -> int:
    args = parse_arguments()
    if args.install:
        install()
        return 0
    wanted = args.only.split(",") if args.only else list(NAMES)
    all_peers = [peer for peer in libraries.make_all(args) if peer.name in wanted]
    libraries.prepare_all(all_peers)
    machine = report.describe_machine()
    figures = all_reduce.measure(all_peers, args)
    figures.reasons |= {name: "left out by --only" for name in NAMES if name not in wanted}
    pairs = measure_torch(args) if torch_pair.NAME in wanted else []
    others = collectives.measure(args) if collectives.NAME in wanted else []
    first = first_calls.measure(args) if first_calls.NAME in wanted else []
    means = resources.measure(args) if resources.NAME in wanted else []
    beside = neighbour.measure(args) if neighbour.NAME in wanted else []
    sockets = network.measure(args, [name for name in network.NAMES if name in wanted])
    result = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine,
        "rounds": args.rounds,
        "seconds": args.seconds,
        "libraries": {p.name: {"title": p.title, "version": p.version, "skipped": p.reason or None} for p in all_peers},
        "rows": combine(figures),
        "torch": pairs,
        "collectives": others,
        "first": first,
        "network": sockets,
        "bars": [figures.row(bar) for bar in all_reduce.BARS],
        "resources": means,
        "neighbour": beside,
    }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    text = report.to_markdown(result) if all_peers else ""
    text += torch_pair.to_markdown(pairs) if pairs else ""
    text += collectives.to_markdown(others) if others else ""
    text += first_calls.to_markdown(first) if first else ""
    text += network.to_markdown(sockets) if sockets else ""
    text += resources.to_markdown(means) if means else ""
    text += neighbour.to_markdown(beside) if beside else ""
    (args.out / "results.md").write_text(text)
    print(text)
    missing = report.plot(result, args.out / "bandwidth.png")
    print(f"written: {args.out}/results.json, results.md" + (f"; no plot: {missing}" if missing else ", bandwidth.png"))
    floors = [*result["bars"], *pairs, *others, *first, *sockets, *means, *beside]
    return 1 if any(floor["verdict"] == "FAIL" for floor in floors) else 0


if __name__ == "__main__":
    sys.exit(main())

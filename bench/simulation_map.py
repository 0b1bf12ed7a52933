"""Draw where each all_reduce algorithm wins, from 2 to 100 000 ranks, by simulation.

Simulates what is not in --json FILE yet (some minutes for all of it), then writes docs/simulation-winners.svg and
docs/simulation-times.svg. Needs matplotlib (tools/requirements-dev.txt).
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NETWORKS = [
    ("10g", 1, "10 Gbit/s Ethernet"),
    ("hdr", 1, "200 Gbit/s InfiniBand"),
    ("100g", 16, "100 Gbit/s, 16 a host"),
]
RANKS = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 100_000]
SIZES = ["8", "512", "4K", "32K", "256K", "2M", "16M", "128M", "1G"]
COLOURS = {
    "recursive_doubling": "#0969da",
    "circulant": "#1a7f37",
    "ring": "#bf8700",
    "hierarchical": "#8250df",
    "direct": "#cf222e",
    "binomial": "#57606a",
}
MOST_RANKS = {"direct": 4096}  # never the best where many ranks are
WHOLE_VECTOR = ("binomial", "recursive_doubling")  # send all of it in each round: never the best for large ones
MANY_RANKS, SMALL_SIZES = 128, SIZES[:5]  # with so many ranks they are simulated for these only
TIME_LIMIT = 300
KEPT = ("ranks", "bytes", "algorithm", "time_us")


def simulate(network: str, per_host: int, ranks: int, algorithm: str) -> list[dict]:
    """Rows of `unisono plan --simulate --json`; none where it is refused."""
    command = [os.environ.get("UNISONO_COMMAND", "unisono"), "plan", "all_reduce", "-n", str(ranks), "--json"]
    command += ["--per-host", str(per_host), "--simulate", network, "--algorithm", algorithm]
    small = algorithm in WHOLE_VECTOR and ranks > MANY_RANKS
    command += ["--sizes", ",".join(SMALL_SIZES if small else SIZES)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        print(f"{' '.join(command)}: more than {TIME_LIMIT} s, left out", file=sys.stderr)
        return []
    if not done.stdout:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return [
        {"network": network, "per_host": per_host, **{key: row[key] for key in KEPT}}
        for row in json.loads(done.stdout)
        if row["time_us"] is not None
    ]


def complete(path: Path, counts: list[int]) -> list[dict]:
    """All rows, those of an earlier run included."""
    known = json.loads(path.read_text()) if path.exists() else {"asked": [], "rows": []}
    for ranks in counts:
        for network, per_host, _ in NETWORKS:
            for algorithm in COLOURS:
                question = [network, per_host, ranks, algorithm]
                hierarchical = algorithm == "hierarchical"
                if question in known["asked"] or ranks > MOST_RANKS.get(algorithm, ranks) or ranks < 2 * per_host:
                    continue
                if hierarchical and per_host == 1:
                    continue
                known["rows"] += simulate(network, per_host, ranks, algorithm)
                known["asked"].append(question)
                path.write_text(json.dumps(known))
                print(*question, flush=True)
    return known["rows"]


def nice_time(microseconds: float) -> str:
    """At most four characters and a unit."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{microseconds / size:.3g} {unit}"
    return f"{microseconds:.3g} us"


def draw_winners(plt, rows: list[dict], path: Path) -> None:
    """A panel a network: ranks to the right, bytes upwards, the fastest algorithm's colour and time."""
    figure, panels = plt.subplots(len(NETWORKS), 1, figsize=(12, 5 * len(NETWORKS)))
    for panel, (network, per_host, title) in zip(panels, NETWORKS, strict=True):
        here = [row for row in rows if row["network"] == network and row["per_host"] == per_host]
        sizes = sorted({row["bytes"] for row in here})
        counts = sorted({row["ranks"] for row in here})
        for x, ranks in enumerate(counts):
            for y, size in enumerate(sizes):
                cell = [row for row in here if row["ranks"] == ranks and row["bytes"] == size]
                if not cell:
                    continue
                best = min(cell, key=lambda row: row["time_us"])
                colour = COLOURS[best["algorithm"]]
                panel.add_patch(plt.Rectangle((x, y), 1, 1, facecolor=colour, edgecolor="white"))
                text = nice_time(best["time_us"])
                panel.text(x + 0.5, y + 0.5, text, ha="center", va="center", color="white", fontsize=7)
        panel.set(xlim=(0, len(counts)), ylim=(0, len(sizes)), xlabel="ranks", ylabel="bytes")
        panel.set_title(f"all_reduce, {title}")
        panel.set_xticks([x + 0.5 for x in range(len(counts))], [str(n) for n in counts], fontsize=8)
        panel.set_yticks([y + 0.5 for y in range(len(sizes))], SIZES[: len(sizes)], fontsize=8)
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour, label=name) for name, colour in COLOURS.items()]
    figure.legend(handles=handles, loc="upper center", ncols=len(handles), frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.97))
    figure.savefig(path)


def draw_times(plt, rows: list[dict], path: Path) -> None:
    """Time against ranks, a panel a size, on the first network."""
    wanted = {8: "8 bytes", 256 << 10: "256 KiB", 128 << 20: "128 MiB"}
    network, per_host, title = NETWORKS[0]
    figure, panels = plt.subplots(1, len(wanted), figsize=(12, 4))
    for panel, (size, label) in zip(panels, wanted.items(), strict=True):
        for algorithm, colour in COLOURS.items():
            line = sorted(
                (row["ranks"], row["time_us"])
                for row in rows
                if (row["network"], row["per_host"], row["bytes"]) == (network, per_host, size)
                and row["algorithm"] == algorithm
            )
            if line:
                panel.loglog(*zip(*line, strict=True), color=colour, marker=".", label=algorithm)
        panel.set(title=f"{label}, {title}", xlabel="ranks", ylabel="microseconds")
        panel.grid(alpha=0.3)
    panels[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    """Simulate and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "simulation-map.json")
    parser.add_argument("--out", type=Path, default=ROOT / "docs")
    parser.add_argument("--draw-only", action="store_true", help="simulate nothing that is missing")
    parser.add_argument("--ranks", default=",".join(map(str, RANKS)), help="simulate for these numbers of ranks")
    args = parser.parse_args()
    counts = [int(ranks) for ranks in args.ranks.split(",")]
    rows = json.loads(args.json.read_text())["rows"] if args.draw_only else complete(args.json, counts)
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # letters, not outlines
    matplotlib.rcParams["svg.hashsalt"] = "unisono"  # the same file from the same figures
    import matplotlib.pyplot as plt

    draw_winners(plt, rows, args.out / "simulation-winners.svg")
    draw_times(plt, rows, args.out / "simulation-times.svg")


main()

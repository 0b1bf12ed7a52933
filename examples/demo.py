"""The demonstration that `make demo` runs: a training job on real data over four processes, and what all_reduce costs.

python examples/demo.py [--out out]     with `unisono` installed in the same environment

Writes digits.png (losses, and where the time went), bandwidth.png (all_reduce against message size) and, with torch,
digits_ddp.png (PyTorch's DDP on "unisono" and on "gloo"), with the figures behind them as JSON. Ends with status 1 when
the training is not what it must be.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import demo_ddp

HERE = Path(__file__).resolve().parent
RANKS = 4
SIZES = "8,64,512,4K,32K,256K,1M,4M,16M,64M"


def find_command() -> str:
    """The command of this environment."""
    beside = Path(sys.executable).parent / "unisono"
    command = str(beside) if beside.exists() else shutil.which("unisono")
    if command is None:
        raise SystemExit(
            f"demo: there is no command unisono beside {sys.executable}, nor in PATH; run make build first"
        )
    return command


def run(command: list[str]) -> int:
    """Run a command with its output passed through; its exit status."""
    print("$", " ".join(command), flush=True)
    return subprocess.run(command, check=False).returncode


def train(unisono: str, out: Path) -> tuple[int, dict[str, float]]:
    """Train on the digits with four ranks; the exit status and what the job says of itself."""
    figures = out / "digits.json"
    figures.unlink(missing_ok=True)
    program = [sys.executable, str(HERE / "digits.py"), "--plot", str(out / "digits.png"), "--json", str(figures)]
    status = run([unisono, "run", "-n", str(RANKS), "--", *program])
    return status, json.loads(figures.read_text()) if figures.exists() else {}


def measure(unisono: str, out: Path, ranks: int) -> list[dict[str, float]]:
    """Measure all_reduce over the sizes, in place."""
    path = out / f"all_reduce_{ranks}.json"
    status = run([unisono, "bench", "all_reduce", "-n", str(ranks), "--sizes", SIZES, "--check", "--json", str(path)])
    if status != 0:
        raise SystemExit(f"demo: the benchmark with {ranks} ranks ended with status {status}")
    return [row for row in json.loads(path.read_text()) if row["in_place"]]


def text_of(size: float) -> str:
    """Bytes as people write them."""
    for unit, bytes_of_unit in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= bytes_of_unit:
            return f"{size / bytes_of_unit:.0f} {unit}"
    return f"{size:.0f} B"


def plot(path: Path, sweeps: dict[int, list[dict[str, float]]]) -> None:
    """Bandwidth and time of all_reduce against the size of the message."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 7.5), sharex=True, layout="constrained")
    for (ranks, rows), color in zip(sweeps.items(), ("#2166ac", "#e08214"), strict=True):
        sizes = [row["bytes"] for row in rows]
        bandwidth, times = [row["algbw_gbps"] for row in rows], [row["time_us"] for row in rows]
        style = {"color": color, "marker": "o", "markersize": 5, "linewidth": 1.8, "label": f"{ranks} ranks"}
        top.plot(sizes, bandwidth, **style)
        bottom.plot(sizes, times, **style)
        best = max(range(len(rows)), key=bandwidth.__getitem__)
        top.annotate(
            f"{bandwidth[best]:.1f} GB/s at {text_of(sizes[best])}",
            (sizes[best], bandwidth[best]),
            xytext=(-8, 8),
            textcoords="offset points",
            ha="right",
            color=color,
        )
        bottom.annotate(
            f"{times[0]:.2f} µs", (sizes[0], times[0]), xytext=(2, 8), textcoords="offset points", color=color
        )
    ticks = [row["bytes"] for row in rows]
    top.set_xscale("log", base=2)
    top.set_xticks(ticks, [text_of(size) for size in ticks])
    top.minorticks_off()
    top.set_ylabel("bandwidth: message / time, GB/s")
    top.set_ylim(bottom=0, top=1.15 * top.get_ylim()[1])
    top.set_title("all_reduce of float32 on this machine, ranks as processes", fontsize=13, loc="left")
    top.legend(loc="upper left", frameon=False)
    bottom.set_yscale("log")
    bottom.set_ylabel("time of a call, µs")
    bottom.set_ylim(top=2 * bottom.get_ylim()[1])
    bottom.set_xlabel("size of the message")
    for axes in (top, bottom):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


def main() -> int:
    """Train, measure, draw, tell."""
    parser = argparse.ArgumentParser(description="Train on real data over four processes, and measure all_reduce.")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where pictures and figures go")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    unisono = find_command()

    status, job = train(unisono, out)
    sweeps = {ranks: measure(unisono, out, ranks) for ranks in (2, 4)}
    plot(out / "bandwidth.png", sweeps)
    ddp, ddp_agrees = demo_ddp.compare(unisono, out)

    print()
    if job:
        print("trained on {ranks} ranks: accuracy on unseen digits {accuracy:.3f}".format(**job), end=" ")
        print("(one process {accuracy_alone:.3f}),".format(**job))
        print("  losses of {steps} steps differ by at most {difference:.1e} from one process,".format(**job))
        print(f"  {1 - job['waiting']:.0%} of the time computing, {job['waiting']:.0%} waiting for communication")
    for ranks, rows in sweeps.items():
        best = max(rows, key=lambda row: row["algbw_gbps"])
        print(
            f"all_reduce on {ranks} ranks: {rows[0]['time_us']:.2f} us for 8 bytes, up to {best['algbw_gbps']:.1f} GB/s"
        )
    print("\n".join(ddp), end="\n" if ddp else "")
    print(f"pictures: {out / 'digits.png'} (losses, where the time went), {out / 'bandwidth.png'} (all_reduce by size)")
    if ddp:
        print(f"          {out / 'digits_ddp.png'} (PyTorch's DDP on both back ends)")
    if status != 0:
        print(f"FAILED: the training job ended with status {status}", file=sys.stderr)
    return 0 if status == 0 and ddp_agrees else 1


if __name__ == "__main__":
    sys.exit(main())

"""What is made of the figures: the floors that unisono must not fall below, a table, a plot."""

import os
import platform
from pathlib import Path

TITLES = {
    "limit": "limit of memory",
    "ordinary": "limit of ordinary memory",
    "unisono": "unisono",
    "private": "unisono, private buffers",
    "shared": "unisono, shared buffers",
    "registered": "unisono, registered buffers",
    "python": "unisono (Python)",
    "gloo": "Gloo",
    "openmpi": "Open MPI",
    "mpich": "MPICH",
}
OTHERS = ("gloo", "openmpi", "mpich")
STYLES = {
    "limit": "#adb5bd",
    "ordinary": "#ced4da",
    "unisono": "#c1121f",
    "private": "#f28482",
    "shared": "#780000",
    "registered": "#9d4edd",
    "gloo": "#6c757d",
    "openmpi": "#1d6fa5",
    "mpich": "#e09f3e",
}
LARGE = 64 << 20


def describe_machine() -> dict:
    """What the figures depend on."""
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        "",
    )
    return {
        "cpu": cpu or platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "load": round(os.getloadavg()[0], 2),
    }


def size_text(size: int) -> str:
    for shift, unit in ((20, "Mi"), (10, "Ki")):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}B"
    return f"{size} B"


def find(rows: list[dict], library: str, ranks: int, size: int) -> float | None:
    """Microseconds, if they were measured."""
    return next((r["time_us"] for r in rows if (r["library"], r["ranks"], r["bytes"]) == (library, ranks, size)), None)


def bars_table(rows: list[dict]) -> list[str]:
    """Speed is the other's time over unisono's. The last column is how many times over the bar was reached."""
    lines = ["| where | ranks | bytes | what | measured | against | measured | speed | bar | reached | |"]
    lines.append("|---|---:|---:|---|---:|---|---:|---:|---:|---:|---|")
    for r in rows:
        least, most = r.get("least"), r.get("most")
        bar = f"at least {least:.2f}" if least else f"at most {most:g} {r['unit']}" if most else "-"
        measured = [f"{r[key]:.2f}" if key in r else "-" for key in ("measured", "theirs")]
        marks = [f"{r[key]:.2f}" if r.get(key) is not None else "-" for key in ("speed", "ratio")]
        cells = [
            r["where"],
            str(r["ranks"]),
            size_text(r["bytes"]) if r["bytes"] else "-",
            r["ours"],
            measured[0],
            r["against"] or "-",
        ]
        cells += [measured[1], marks[0], bar, marks[1], r["verdict"] + (f" ({r['reason']})" if "reason" in r else "")]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def figures_table(result: dict, ranks: int) -> list[str]:
    """A row a size: time and bandwidth of each library, and how unisono compares with the best other one."""
    rows = result["rows"]
    libraries = [name for name in STYLES if any(r["library"] == name and r["ranks"] == ranks for r in rows)]
    sizes = sorted({r["bytes"] for r in rows if r["ranks"] == ranks})
    lines = [
        "| bytes | " + " | ".join(f"{TITLES[name]}: us | GB/s" for name in libraries) + " | best other / unisono |"
    ]
    lines.append("|" + "---:|" * (2 + 2 * len(libraries)))
    for size in sizes:
        cells = []
        times = {name: find(rows, name, ranks, size) for name in libraries}
        for time in times.values():
            cells += ["-", "-"] if time is None else [f"{time:.2f}", f"{size / time / 1e3:.3g}"]
        others = [time for name, time in times.items() if name in OTHERS and time]
        ours = times.get("unisono")
        ratio = f"{min(others) / ours:.2f}" if others and ours else "-"
        lines.append(f"| {size_text(size)} | " + " | ".join(cells) + f" | {ratio} |")
    return lines


def to_markdown(result: dict) -> str:
    """The whole report."""
    machine = result["machine"]
    lines = ["# all_reduce of f32, in place, on one host", ""]
    lines.append(f"{result['date']}, {machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']},")
    lines.append(f"load average {machine['load']} before.")
    if machine["load"] > 0.5:
        lines.append("**Other programs were running: these figures say little.**")
    lines.append(
        f"Median over {result['rounds']} rounds of the median over calls of the slowest rank; GB/s are bytes over time."
    )
    lines.append("")
    for library in result["libraries"].values():
        skipped = f": SKIPPED: {library['skipped']}" if library["skipped"] else ""
        lines.append(f"- {library['title']} {library['version']}{skipped}")
    for ranks in sorted({r["ranks"] for r in result["rows"]}):
        lines += ["", f"## {ranks} ranks", "", *figures_table(result, ranks)]
        python = find(result["rows"], "python", ranks, 8)
        if python is not None:
            lines += ["", f"From Python, 8 B: {python:.2f} us."]
    lines += ["", "## Bars", "", *bars_table(result["bars"])]
    return "\n".join(lines) + "\n"


def plot(result: dict, path: Path) -> str:
    """Bandwidth against size, one picture a number of ranks. Returns why there is none, or nothing."""
    try:
        import matplotlib
    except ImportError:
        return "matplotlib is not installed (bench/compare --install)"
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = result["rows"]
    all_ranks = sorted({r["ranks"] for r in rows})
    if not all_ranks:
        return "nothing was measured"
    figure, axes = plt.subplots(1, len(all_ranks), figsize=(6.4 * len(all_ranks), 4.6), squeeze=False, sharey=True)
    for axis, ranks in zip(axes[0], all_ranks, strict=True):
        for name, colour in STYLES.items():
            points = sorted((r["bytes"], r["algbw_gbps"]) for r in rows if r["library"] == name and r["ranks"] == ranks)
            if points:
                axis.plot(*zip(*points, strict=True), marker="o", label=TITLES[name], color=colour)
        axis.set(xscale="log", yscale="log", xlabel="bytes of the buffer", title=f"f32 all_reduce, {ranks} ranks")
        sizes = sorted({r["bytes"] for r in rows if r["ranks"] == ranks})
        axis.set_xticks(sizes, [size_text(size) for size in sizes], rotation=45, ha="right")
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("bytes / time, GB/s")
    axes[0][0].legend()
    machine = result["machine"]
    figure.suptitle(f"{machine['cpu']}, {machine['cores']} cores", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    return ""

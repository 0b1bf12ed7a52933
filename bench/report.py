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


def check_floors(rows: list[dict], reasons: dict[str, str]) -> list[dict]:
    """Each floor with what was measured, by how much it is passed or missed, and the verdict."""

    def floor(what: str, ours: tuple, theirs: tuple | None, limit: float, unit: str) -> dict:
        """`limit`: at most so many us, or, beside a peer, at least so many times as fast."""
        time = find(rows, *ours)
        peer = find(rows, *theirs) if theirs else None
        result = {"what": what, "limit": f"at {'least' if theirs else 'most'} {limit:g} {unit}"}
        for library in [ours[0]] + ([theirs[0]] if theirs else []):
            if find(rows, *(ours if library == ours[0] else theirs)) is None:
                reason = (
                    reasons.get(library, "left out by --only")
                    or f"not measured with {ours[1]} ranks at {size_text(ours[2])}"
                )
                return result | {
                    "measured": "-",
                    "ratio": None,
                    "verdict": "SKIPPED",
                    "reason": f"{TITLES[library]}: {reason}",
                }
        if theirs:
            speedup = peer / time
            result |= {"measured": f"{speedup:.2f} {unit}", "ratio": round(speedup / limit, 3)}
        else:
            result |= {"measured": f"{time:.2f} {unit}", "ratio": round(limit / time, 3)}
        return result | {"verdict": "PASS" if result["ratio"] >= 1 else "FAIL"}

    return [
        floor("2 ranks, 64 MiB, bandwidth", ("unisono", 2, LARGE), ("gloo", 2, LARGE), 3, "x Gloo"),
        floor("2 ranks, 8 B, C++", ("unisono", 2, 8), None, 2, "us"),
        floor("2 ranks, 8 B, Python", ("python", 2, 8), None, 10, "us"),
        floor("4 ranks, 64 MiB, bandwidth", ("unisono", 4, LARGE), ("gloo", 4, LARGE), 3, "x Gloo"),
        *(
            floor(f"{n} ranks, 64 MiB, {kind} buffers", (kind, n, LARGE), ("limit", n, LARGE), 0.92, "x the limit")
            for n in (2, 4, 8)
            for kind in ("shared", "registered")
        ),
        floor("4 ranks, 8 B, speed", ("unisono", 4, 8), ("gloo", 4, 8), 20, "x Gloo"),
    ]


def floors_table(floors: list[dict]) -> list[str]:
    lines = ["| floor | limit | measured | measured / limit | |", "|---|---|---|---|---|"]
    for f in floors:
        ratio = "-" if f["ratio"] is None else f"{f['ratio']:.2f}"
        verdict = f["verdict"] + (f" ({f['reason']})" if "reason" in f else "")
        lines.append(f"| {f['what']} | {f['limit']} | {f['measured']} | {ratio} | {verdict} |")
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
    lines += ["", "## Floors", "", *floors_table(result["floors"])]
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

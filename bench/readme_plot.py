#!/usr/bin/env python3
"""Draws docs/all_reduce.svg from the table "How fast" of README.md, so that the two never disagree.

Needs matplotlib (tools/requirements-dev.txt).
"""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[1]


def figures(readme: str) -> dict[str, list[tuple[float, float]]]:
    """By size in the table: for each number of ranks the time of unisono and of the faster MPI, in us."""
    rows = re.findall(r"^\| (\d+ (?:B|KiB|MiB)) \| (.+) \|$", readme.partition("## How fast")[2], flags=re.MULTILINE)
    found = {}
    for size, cells in rows:
        times = [float(cell.strip(" *").replace(" ", "")) for cell in cells.split("|")]
        found[size] = list(zip(times[::2], times[1::2], strict=True))
    return found


def draw(readme: str, path: Path) -> None:
    """Bars: how many times as fast as the faster MPI."""
    ranks = re.findall(r"(\d+) ranks \| MPI", readme)
    table = figures(readme)
    colours = ("#9ecae1", "#6baed6", "#3182bd", "#08519c")  # light to dark: more ranks
    figure, axes = plt.subplots(figsize=(9, 3.4))
    width = 0.8 / len(ranks)
    for i, (count, colour) in enumerate(zip(ranks, colours, strict=True)):
        ratios = [times[i][1] / times[i][0] for times in table.values()]
        places = [place + (i - (len(ranks) - 1) / 2) * width for place in range(len(table))]
        bars = axes.bar(places, ratios, width * 0.92, color=colour, label=f"{count} ranks")
        axes.bar_label(bars, [f"{ratio:.1f}" for ratio in ratios], fontsize=8, padding=2)
    axes.axhline(1, color="#d62728", linewidth=1, label="the faster MPI")
    axes.set_xticks(range(len(table)), list(table))
    axes.set_ylabel("times as fast")
    axes.set_title(
        "all_reduce of f32 on one host of 16 cores, beside the faster of Open MPI 4.1 and MPICH 4.0", fontsize=10
    )
    axes.legend(frameon=False, ncols=len(ranks) + 1, fontsize=8, loc="upper left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(y=0.18)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    matplotlib.use("svg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # letters, not outlines
    matplotlib.rcParams["svg.hashsalt"] = "unisono"  # the same file from the same figures
    draw((ROOT / "README.md").read_text(), ROOT / "docs" / "all_reduce.svg")

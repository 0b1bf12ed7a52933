"""The group `torch` of bench/compare: torch.distributed over unisono beside Gloo, collectives and DDP's steps."""

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import libraries
import report
from libraries import LibraryError, find_python

NAME = "torch"
PROGRAM = libraries.PROGRAMS / "torch_pair.py"
SIZES = (8, 64 << 10, 64 << 20)
DDP_MIB = (24, 96)
LEAST, LEAST_ALL_REDUCE, MOST_TINY_US = 3.0, 5.0, 12.0


def prepare(chosen: Path | None) -> Path:
    """The interpreter that has torch and unisono's back end for it."""
    python = chosen or find_python("torch", "unisono")
    if python is None:
        raise LibraryError("no Python with torch and unisono: make build, or --torch-python PATH")
    libraries.run_program([python, "-c", "import unisono.torch as u; u.Backend"])
    return python


def run(python: Path, ranks: int, arguments: list[str]) -> list[dict]:
    """Rows of one job of `ranks` processes."""
    with tempfile.TemporaryDirectory() as folder:
        common = os.environ | {"WORLD_SIZE": str(ranks), "INIT_FILE": f"{folder}/store", "GLOO_SOCKET_IFNAME": "lo"}
        common["OMP_NUM_THREADS"] = "1"
        logs = [Path(folder) / f"rank{rank}" for rank in range(ranks)]
        started = []
        try:
            for rank, log in enumerate(logs):
                with open(log, "w") as output:
                    command = [str(python), str(PROGRAM), *arguments]
                    own = common | {"RANK": str(rank)}
                    started.append(subprocess.Popen(command, env=own, stdout=output, stderr=subprocess.STDOUT))
            deadline = time.monotonic() + libraries.TIME_LIMIT
            for rank, process in enumerate(started):
                if process.wait(max(0.0, deadline - time.monotonic())) != 0:
                    last = (logs[rank].read_text().strip() or "no output").splitlines()[-1]
                    raise LibraryError(f"{PROGRAM.name}: rank {rank} ended with {process.returncode}: {last}")
        except subprocess.TimeoutExpired:
            raise LibraryError(f"{PROGRAM.name} took longer than {libraries.TIME_LIMIT} s") from None
        finally:
            for process in started:
                process.kill()
                process.wait()
        return [json.loads(line) for line in logs[0].read_text().splitlines() if line.startswith("{")]


def measure(python: Path, all_ranks: Sequence[int], rounds: int, seconds: float, quick: bool) -> list[dict]:
    """Every row: the median over rounds, and by how much it passes its floor (`ratio`)."""
    found: dict[tuple[str, int, int], list[dict]] = {}
    for _ in range(rounds):
        for ranks in all_ranks:
            effort = f"{seconds:g}"
            rows = run(python, ranks, ["collectives", effort, *map(str, SIZES)]) if ranks == 2 else []
            rows += run(python, ranks, ["ddp", "4" if quick else "8", *map(str, DDP_MIB)])
            for row in rows:
                found.setdefault((row["what"], row["ranks"], row["bytes"]), []).append(row)
    return [combine(rows) for rows in found.values()]


def combine(rows: list[dict]) -> dict:
    """The median of each time, and the floor."""
    row = dict(rows[0])
    for key in row:
        if key.endswith("_us"):
            row[key] = statistics.median(r[key] for r in rows)
    if row["what"] == "ddp":
        for library in ("gloo", "private", "unisono"):
            row[f"{library}_exposed_us"] = round(row[f"{library}_us"] - row["silent_us"], 1)
        gloo, ours = row["gloo_exposed_us"], row["unisono_exposed_us"]
        # On a noisy machine a step may take no longer with communication than without.
        speedup, limit = gloo / max(ours, gloo / 100), LEAST
        own = row["silent_us"] - row["local_us"]
        row["speedup_with_ddp"] = round((gloo + own) / max(ours + own, (gloo + own) / 100), 3)
    elif row["bytes"] == 8:
        # Only the floor of all_reduce is one in time; the others have to be fast, too.
        speedup, limit = row["gloo_us"] / row["unisono_us"], LEAST
        if row["what"] == "all_reduce":
            row["time_ratio"] = round(MOST_TINY_US / row["unisono_us"], 3)
    else:
        large_sum = row["what"] == "all_reduce" and row["bytes"] == report.LARGE
        speedup, limit = row["gloo_us"] / row["unisono_us"], LEAST_ALL_REDUCE if large_sum else LEAST
    row |= {"speedup": round(speedup, 3), "limit": limit, "ratio": round(speedup / limit, 3)}
    row["verdict"] = "PASS" if min(row["ratio"], row.get("time_ratio", 1.0)) >= 1 else "FAIL"
    return row


def to_markdown(rows: list[dict]) -> str:
    """Two tables."""
    lines = ["# torch.distributed: unisono beside Gloo, by turns in one job", ""]
    lines += [
        "Medians of the slowest rank. Torch alone: the same call with its back end `fake`, which communicates nothing.",
        "",
        "| call | ranks | bytes | unisono us | Gloo us | torch alone us | Gloo / unisono | at least | |",
        "|---|" + "---:|" * 7 + "---|",
    ]
    for r in rows:
        if r["what"] != "ddp":
            alone = f"{r['alone_us']:.1f}" if "alone_us" in r else "-"
            lines.append(
                f"| {r['what']} | {r['ranks']} | {report.size_text(r['bytes'])} | {r['unisono_us']:.1f} | "
                f"{r['gloo_us']:.1f} | {alone} | {r['speedup']:.2f} | {r['limit']:g} | {r['verdict']} |"
            )
    lines += [
        "",
        "A training step with DDP. Exposed communication: beyond a step with a DDP that sends nothing and only puts "
        "gradients into its buckets (in brackets: Gloo / unisono beyond a step without DDP). Private: "
        "DDP_DISABLE_COMM_MEM=1; such buckets are shared by themselves, too, once collectives came back to them "
        "(UNISONO_SHARE_MEMORY=0 refuses).",
        "",
    ]
    lines += [
        "| gradients | ranks | no DDP ms | DDP ms | exposed: Gloo ms | private ms | unisono ms | Gloo / unisono | |"
    ]
    lines += ["|---:|" + "---:|" * 7 + "---|"]
    for r in rows:
        if r["what"] == "ddp":
            exposed = " | ".join(f"{r[f'{k}_exposed_us'] / 1e3:.1f}" for k in ("gloo", "private", "unisono"))
            lines.append(
                f"| {report.size_text(r['bytes'])} | {r['ranks']} | {r['local_us'] / 1e3:.1f} | "
                f"{r['silent_us'] / 1e3:.1f} | {exposed} | {r['speedup']:.2f} ({r['speedup_with_ddp']:.2f}) | "
                f"{r['verdict']} |"
            )
    return "\n".join(lines) + "\n"

"""PyTorch's own suite over Gloo and over unisono: is what passes over Gloo contained in what passes over unisono?

    python compare.py                         everything, 3 and 4 ranks (half an hour on two cores)
    python compare.py --world-size 3 'test_all_*'

Prints a table and every difference with its reason; exit status 1 when a test that passes over Gloo fails over
unisono, and is not listed in EXCEPTIONS.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROLES = ("gloo", "plugin", "impersonator")

_NO_SYNC = 'it has a branch for "gloo" and one for "nccl", and none for others; the impersonator passes it'

EXCEPTIONS: dict[str, dict[str, str]] = {
    "plugin": {
        "test_ddp_logging_data_cpu": 'compares the name of the back end with torch\'s type of it, which is "custom"',
        "test_accumulate_gradients_no_sync": _NO_SYNC,
        "test_accumulate_gradients_no_sync_allreduce_hook": _NO_SYNC,
        "test_accumulate_gradients_no_sync_allreduce_with_then_hook": _NO_SYNC,
        "test_accumulate_gradients_no_sync_grad_is_view": _NO_SYNC,
    },
    "impersonator": {
        "test_ddp_logging_data_cpu": 'where the name is "gloo", torch\'s logger reads fields of its own C++ class',
    },
}
"""Tests of torch that pass over Gloo and cannot over unisono, by role: each with the reason."""

Results = dict[str, dict[str, str]]


def run(role: str, world_size: int, patterns: list[str]) -> Results:
    """Run the driver to its end; what became of each test."""
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        command = [sys.executable, str(Path(__file__).with_name("driver.py")), "--role", role]
        command += ["--world-size", str(world_size), "--output", file.name, *patterns]
        print(f"+ {role}, {world_size} ranks", flush=True)
        # What ranks print is of interest only when a test fails, and then the driver has it.
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        lines = [json.loads(line) for line in Path(file.name).read_text().splitlines()]
    if not lines:
        raise SystemExit(f"the driver ran no test (exit status {done.returncode}):\n{done.stderr[-3000:]}")
    return {line["test"]: line for line in lines}


def missing(role: str, gloo: Results, ours: Results) -> tuple[list[str], list[str]]:
    """Tests that pass over Gloo and not over unisono: those that should, and those that are excepted."""
    lost = [name for name, line in gloo.items() if line["outcome"] == "passed" and ours[name]["outcome"] != "passed"]
    excepted = EXCEPTIONS[role]
    return [n for n in lost if not _is_excepted(ours[n], excepted)], [
        n for n in lost if _is_excepted(ours[n], excepted)
    ]


def _is_excepted(line: dict[str, str], excepted: dict[str, str]) -> bool:
    # A test that is skipped because its decorator compares the name with "gloo" says so.
    return line["test"] in excepted or (line["outcome"] == "skipped" and "gloo" in line["why"].lower())


def compare(world_size: int, patterns: list[str]) -> int:
    """All roles at one world size; how many tests are missing."""
    results = {role: run(role, world_size, patterns) for role in ROLES}
    print(f"\n{world_size} ranks       passed  failed  skipped  only here  missing  excepted")
    bad = 0
    notes: list[str] = []
    for role in ROLES:
        counts = Counter(line["outcome"] for line in results[role].values())
        row = f"{role:<14}{counts['passed']:>8}{counts['failed']:>8}{counts['skipped']:>9}"
        if role != "gloo":
            wrong, excepted = missing(role, results["gloo"], results[role])
            more = [
                n for n, line in results[role].items() if line["outcome"] == "passed" != results["gloo"][n]["outcome"]
            ]
            row += f"{len(more):>11}{len(wrong):>9}{len(excepted):>10}"
            bad += len(wrong)
            for name in wrong:
                line = results[role][name]
                notes.append(f"  {role}: {name} {line['outcome']}: {line['why'].strip()[-600:]}")
            for name in excepted:
                reason = EXCEPTIONS[role].get(name) or f"skipped by torch: {results[role][name]['why'].strip()}"
                notes.append(f"  {role}: {name}: excepted: {reason}")
        print(row)
    print("\n".join(notes), flush=True)
    return bad


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world-size", type=int, action="append", help="may be repeated; default: 3 and 4")
    parser.add_argument("patterns", nargs="*", default=["*"], help="names of tests, with * and ?")
    arguments = parser.parse_args()
    return int(sum(compare(size, arguments.patterns) for size in arguments.world_size or [3, 4]) > 0)


if __name__ == "__main__":
    sys.exit(main())

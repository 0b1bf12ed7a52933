"""Count the instructions of the engine's operations under callgrind.

A figure is what one call costs one rank: the difference between two runs of different length, over their calls and
ranks. It does not depend on what else the machine does, so a regression of a few per cent shows. Compared with
instructions.json beside this file; --update writes it. The exit status is 1 when a figure is more than 3 % above.

usage: bench/instructions.py [--update] [--json FILE]
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BASELINE = ROOT / "bench" / "instructions.json"
BUILD = ROOT / "build" / "instructions"
TOLERANCE = 1.03
#        collective, algorithm, ranks, bytes, calls of the shorter and of the longer run
CASES = (
    ("all_reduce", "inline", 2, 8, 1000, 5000),
    ("all_reduce", "inline", 8, 8, 1000, 5000),
    ("all_reduce", "inline", 2, 1024, 1000, 5000),
    ("all_reduce", "staged_one_shot", 2, 1 << 10, 200, 1000),
    ("all_reduce", "staged_return", 2, 64 << 10, 50, 250),
    ("all_reduce", "staged_return", 2, 1 << 20, 10, 40),
    ("all_reduce", "staged_two_shot", 4, 1 << 20, 10, 40),
    ("all_reduce", "single_copy", 2, 1 << 20, 10, 40),
    ("all_gather", "staged", 4, 1 << 20, 10, 40),
    ("broadcast", "staged", 4, 1 << 20, 10, 40),
)


def build() -> Path:
    """The program, from this tree."""
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DUNISONO_BENCH=ON", "-DUNISONO_TESTS=OFF", "-G", "Ninja"]
    for command in (
        ["cmake", "-S", ROOT, "-B", BUILD, *options],
        ["cmake", "--build", BUILD, "--target", "instructions", "-j", "2"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"bench/instructions.py: {' '.join(map(str, command))} failed\n{done.stdout}{done.stderr}")
    return BUILD / "bench" / "instructions"


def count(program: Path, case: tuple, calls: int) -> int:
    """Instructions of a whole run."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [*map(str, case[:4]), str(calls)]
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = re.search(r"Collected : (\d+)", done.stderr)
        if done.returncode != 0 or not found:
            sys.exit(f"bench/instructions.py: {' '.join(map(str, command))} failed\n{done.stderr}")
        return int(found.group(1))


def name_of(case: tuple) -> str:
    collective, algorithm, ranks, size = case[:4]
    return f"{collective} {algorithm} {ranks} ranks {size} bytes"


def measure(program: Path) -> dict[str, int]:
    figures = {}
    for case in CASES:
        short, long = case[4:]
        more = count(program, case, long) - count(program, case, short)
        figures[name_of(case)] = round(more / (long - short) / case[2])
        print(f"  counted {name_of(case)}", file=sys.stderr, flush=True)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="make these figures the ones to compare with")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    args = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("bench/instructions.py: SKIPPED: no valgrind (Debian: valgrind)")
        return 0
    figures = measure(build())
    before = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    worse = 0
    print(f"{'instructions of one call on one rank':<52} {'now':>10} {'before':>10} {'ratio':>7} {'per byte':>9}")
    for case in CASES:
        name, now = name_of(case), figures[name_of(case)]
        old = before.get(name)
        ratio = now / old if old else None
        worse += ratio is not None and ratio > TOLERANCE
        text = "-" if ratio is None else f"{ratio:.3f}"
        print(f"{name:<52} {now:>10} {old or '-':>10} {text:>7} {now / case[3]:>9.3f}")
    for path in [args.json] * bool(args.json) + [BASELINE] * args.update:
        path.write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if worse and not args.update else 0


if __name__ == "__main__":
    sys.exit(main())

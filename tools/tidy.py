#!/usr/bin/env python3
"""Run clang-tidy over the C++ sources: what .clang-tidy asks for, all of it an error.

Usage: tools/tidy.py [PATH...]. Files whose path begins with one of them, such as src/engine; without any, the library,
the command and the examples. (What the macros of the test and benchmark libraries become is full of findings that are
not ours.) Prints a line a finding, each once, and exits with 1 when there is any.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "tidy"  # `make tidy` configures it, each file by itself
FINDING = re.compile(r"^/.*: (error|warning): ")


def sources(wanted: list[str]) -> list[str]:
    """Of the project, relative to its root."""
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    files = {os.path.relpath(command["file"], ROOT) for command in commands}
    return sorted(f for f in files if not f.startswith(("..", "build")) and f.startswith(tuple(wanted)))


def check(file: str) -> tuple[str, list[str]]:
    """The findings of one file."""
    tidy = Path(sys.executable).parent / "clang-tidy"
    done = subprocess.run(
        # What g++ alone knows is not a finding.
        [str(tidy), "-p", str(BUILD), "--quiet", "--extra-arg=-Wno-unknown-warning-option", file],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line.replace(f"{ROOT}/", "", 1) for line in done.stdout.splitlines() if FINDING.match(line)]
    if done.returncode != 0 and not found:
        found = [f"{file}: {line}" for line in (done.stdout + done.stderr).strip().splitlines()[-5:]]
    return file, found


def main() -> int:
    """0 when nothing was found."""
    wanted = sys.argv[1:] or ["src/", "examples/"]
    files = sources(wanted)
    if not files:
        sys.exit(f"tools/tidy.py: {BUILD.relative_to(ROOT)} compiles no file below {', '.join(wanted)}")
    on_terminal = sys.stdout.isatty()
    seen: set[str] = set()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for number, job in enumerate(as_completed([pool.submit(check, file) for file in files]), 1):
            file, found = job.result()
            if on_terminal:
                print(f"\r\033[K{number}/{len(files)} {file}", end="", flush=True)
            new = [line for line in found if line not in seen]
            seen.update(new)
            if new:
                print("\r\033[K" if on_terminal else "", "\n".join(new), sep="", flush=True)
    print("\r\033[K" if on_terminal else "", f"{len(files)} files, {len(seen)} findings", sep="")
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Write python/unisono/_core.pyi from the module that this interpreter imports, or check that it is up to date."""

from __future__ import annotations

import argparse
import difflib
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "python" / "unisono" / "_core.pyi"


def generate() -> str:
    """Return the stub as nanobind makes it and ruff formats it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "_core.pyi"
        patterns = ROOT / "bindings" / "stub_patterns.txt"
        stubgen = [
            sys.executable,
            "-m",
            "nanobind.stubgen",
            "-q",
            "-m",
            "unisono._core",
            "-p",
            str(patterns),
            "-o",
            str(path),
        ]
        subprocess.run(stubgen, check=True)
        header = "# Made by bindings/make_stub.py from the signatures and docstrings in bindings/. Do not edit.\n\n"
        path.write_text(header + path.read_text())
        ruff = [sys.executable, "-m", "ruff"]
        config = ["--config", str(ROOT / "pyproject.toml")]
        # Where the stub is sorted, outside the tree, nothing else says that unisono is the package itself.
        ours = ["--config", 'lint.isort.known-first-party = ["unisono"]']
        subprocess.run([*ruff, "check", *config, *ours, "--fix", "--select", "I,F401", "-q", str(path)], check=True)
        subprocess.run([*ruff, "format", *config, "-q", str(path)], check=True)
        return path.read_text()


def main() -> int:
    """Write or check; 1 when the checked-in stub differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; show the differences")
    arguments = parser.parse_args()
    stub = generate()
    if not arguments.check:
        STUB.write_text(stub)
        return 0
    before = STUB.read_text() if STUB.exists() else ""
    lines = difflib.unified_diff(before.splitlines(), stub.splitlines(), str(STUB), "generated", lineterm="")
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return int(before != stub)


if __name__ == "__main__":
    sys.exit(main())

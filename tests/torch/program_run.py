"""Programs of tests/torch/programs, started as users start them; what they wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
ALONE = [sys.executable]


def unisono_run(ranks: int = 2) -> list[str]:
    """`unisono run`, of the command beside this Python or that UNISONO_COMMAND names."""
    command = os.environ.get("UNISONO_COMMAND") or str(Path(sysconfig.get_path("scripts")) / "unisono")
    return [command, "run", "-n", str(ranks), "--", sys.executable]


def start(
    launcher: list[str], program: str, *arguments: str, env: dict[str, str] | None = None, seconds: float = 100
) -> subprocess.CompletedProcess[str]:
    """Run it to its end; its output is text."""
    everything = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **(env or {})}
    command = [*launcher, str(PROGRAMS / program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=everything, check=False)


def result(launcher: list[str], program: str, backend: str, folder: Path, env: dict[str, str] | None = None) -> Any:
    """The JSON that `program BACKEND RESULT` wrote; AssertionError with its output when it fails."""
    path = folder / f"{backend}.json"
    path.unlink(missing_ok=True)
    done = start(launcher, program, backend, str(path), env=env)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    written = json.loads(path.read_text())
    assert written["backend"] == backend
    return written

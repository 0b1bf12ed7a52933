"""Simulated times are those that shaped links give: a short run of bench/simulation.py, in the long run only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "simulation.py"


@pytest.mark.skipif(not os.environ.get("UNISONO_TEST_LONG"), reason="make test-long runs it: it takes a minute")
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("tc") is None, reason="SKIPPED: needs root, ip and tc")
def test_measured_and_simulated_times_agree() -> None:
    command = [sys.executable, str(SCRIPT), "--hosts", "2", "--collectives", "all_reduce", "--sizes", "64K"]
    answer = subprocess.run(
        [*command, "--rounds", "2", "--most", "0.3"], capture_output=True, text=True, timeout=280, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "# 2 hosts" in answer.stdout and "within 30%" in answer.stdout

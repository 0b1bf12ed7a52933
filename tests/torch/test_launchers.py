"""A script as PyTorch's tutorials write it, unchanged but for the name, under torchrun and unisono run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch back end needs torch: pip install torch==2.13.0")

from program_run import TORCHRUN, result, start, unisono_run  # noqa: E402


@pytest.mark.long
def test_the_same_losses_under_both_launchers(tmp_path: Path) -> None:
    theirs = result(TORCHRUN, "train.py", "gloo", tmp_path)["losses"]
    assert theirs[-1] < theirs[0]
    assert result(TORCHRUN, "train.py", "unisono", tmp_path)["losses"] == pytest.approx(theirs, rel=1e-4)
    watched = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
    assert result(unisono_run(), "train.py", "unisono", tmp_path, watched)["losses"] == pytest.approx(theirs, rel=1e-4)


def test_torchrun_restarts_after_a_death(tmp_path: Path) -> None:
    begin = time.monotonic()
    done = start([*TORCHRUN, "--max-restarts=1"], "dies_once.py", str(tmp_path))
    assert done.returncode == 0, done.stderr[-8000:]
    heard = (tmp_path / "attempt0-rank0").read_text()
    assert "DistBackendError" in heard and "rank 1" in heard, heard
    assert not (tmp_path / "attempt0-rank1").exists()
    assert [(tmp_path / f"attempt1-rank{rank}").read_text() for rank in range(2)] == ["sum 2"] * 2
    assert time.monotonic() - begin < 60  # two times starting; torch's own patience with ranks that do not end is 30 s


def test_unisono_run_says_who_died(tmp_path: Path) -> None:
    done = start(unisono_run(), "dies_once.py", str(tmp_path))
    assert done.returncode != 0 and "rank 1" in done.stderr and "killed" in done.stderr, done.stderr[-4000:]

"""The DDP part of the demonstration: the same losses on both back ends, as its files, table and picture say."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

import demo_ddp  # noqa: E402


def command() -> str:
    beside = Path(sys.executable).parent / "unisono"
    found = str(beside) if beside.exists() else shutil.which("unisono")
    assert found, "no command unisono: run make build"
    return found


@pytest.mark.long  # `make demo` does the same
@pytest.mark.timeout(240)  # four interpreters that import torch
def test_both_back_ends_learn_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_ddp, "EPOCHS", 4)
    monkeypatch.setattr(demo_ddp, "RANKS", (2,))
    lines, agrees = demo_ddp.compare(command(), tmp_path)
    assert agrees and "gloo / unisono" in lines[1] and len(lines[1].splitlines()) == 2
    assert (tmp_path / "digits_ddp.png").stat().st_size > 10_000
    result = json.loads((tmp_path / "digits_ddp_unisono_2.json").read_text())
    assert len(result["losses"]) == len(result["seconds"]) == 20
    assert result["losses"][-1] < result["losses"][0] - 0.1


def test_losses_that_differ_fail_the_demonstration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def job(unisono: str, out: Path, backend: str, ranks: int) -> demo_ddp.Job:
        return demo_ddp.Job(backend, ranks, [1.0, 0.5 + 1e-4 * (backend == "gloo")] * 10, [0.001] * 20, 0.9)

    monkeypatch.setattr(demo_ddp, "train", job)
    lines, agrees = demo_ddp.compare("", tmp_path)
    assert not agrees and "differ by 1.0e-04" in lines[-1]


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_table_of_comma_separated_values(tmp_path: Path) -> None:
    table = tmp_path / "losses.csv"
    program = [sys.executable, str(EXAMPLES / "digits_ddp.py"), "--epochs", "1", "--out", str(table)]
    subprocess.run([command(), "run", "-n", "2", "--", *program], check=True, timeout=200)
    rows = table.read_text().splitlines()
    assert rows[0] == "loss,seconds" and len(rows) == 6
    assert all(float(value) > 0 for row in rows[1:] for value in row.split(","))


def test_without_torch_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert demo_ddp.compare("unisono", Path()) == ([], True)
    said = capsys.readouterr().out
    assert said.count("\n") == 1 and "pip install torch==2.13.0" in said

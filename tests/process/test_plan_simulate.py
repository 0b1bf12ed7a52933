"""`unisono plan --simulate`: what it prints, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COMMAND = Path(sys.executable).parent / "unisono"


def plan(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`unisono plan all_reduce --simulate ...`."""
    return subprocess.run(
        [COMMAND, "plan", "all_reduce", *arguments], capture_output=True, text=True, timeout=100, check=False
    )


def rows(*arguments: str) -> list[dict[str, Any]]:
    """What --json says."""
    answer = plan(*arguments, "--json")
    assert answer.returncode == 0, answer.stderr
    found: list[dict[str, Any]] = json.loads(answer.stdout)
    return found


def test_a_row_for_each_algorithm_and_size() -> None:
    found = rows("-n", "16", "--per-host", "4", "--simulate", "10g", "--algorithm", "all", "--sizes", "8,1M")
    names = {"binomial", "recursive_doubling", "circulant", "ring", "direct", "hierarchical"}
    assert {(row["algorithm"], row["bytes"]) for row in found} == {(n, b) for n in names for b in (8, 1 << 20)}
    for row in found:
        path = sum(row["path"][part] for part in ("latency_us", "transfer_us", "compute_us", "queue_us"))
        assert path == pytest.approx(row["time_us"])
        assert 0 < row["busiest_share"] <= 1


def test_the_table_says_which_ranks_were_simulated() -> None:
    answer = plan("-n", "1000", "--simulate", "alpha-beta:alpha=20us,beta=8ns/B", "--algorithm", "ring")
    assert answer.returncode == 0
    assert "one rank for all 1000" in answer.stdout
    assert "alpha-beta:alpha=20us,beta=8ns/B" in answer.stdout


def test_no_share_is_below_nothing() -> None:
    """A rounding error was, and was printed as -0.0."""
    arguments = ("-n", "100000", "--simulate", "10g", "--algorithm", "ring", "--sizes", "64M")
    (row,) = rows(*arguments)
    assert row["path"]["queue_us"] >= 0
    answer = plan(*arguments)
    assert answer.returncode == 0
    assert "  0.0 " in answer.stdout
    assert "-0.0" not in answer.stdout


def test_a_ring_of_100_000_ranks_is_the_textbook_formula() -> None:
    (row,) = rows("-n", "100000", "--simulate", "alpha-beta:alpha=1us,beta=1ns/B", "--algorithm", "ring")
    steps = 2 * (100_000 - 1)
    assert row["time_us"] == pytest.approx(steps * (1 + (1 << 20) / 100_000 * 1e-3))


def test_a_model_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text('{"10g": {"L": "5us"}, "torus": "4x4"}')
    (row,) = rows("-n", "16", "--simulate", str(path), "--algorithm", "ring")
    (same,) = rows("-n", "16", "--simulate", "10g:L=5us+torus:4x4", "--algorithm", "ring")
    assert row == same


@pytest.mark.parametrize(
    ("model", "says"),
    [("9g", "there are loggp"), ("10g+torus:2x2", "do not fit"), ("none.json", "cannot be read")],
)
def test_what_cannot_be_simulated_is_said(model: str, says: str) -> None:
    answer = plan("-n", "16", "--simulate", model, "--algorithm", "ring")
    assert answer.returncode in (1, 2)
    assert says in answer.stdout + answer.stderr

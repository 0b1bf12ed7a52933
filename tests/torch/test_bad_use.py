"""Mistakes and deaths over "unisono": every rank ends with an exception that names the cause, and soon."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch back end needs torch: pip install torch==2.13.0")

import bad_use_cases as cases  # noqa: E402
from backend_pair import Pair  # noqa: E402
from torch_job import End, launch  # noqa: E402

pytest_plugins = ["pair_fixtures"]

SOON = 40.0  # seconds for processes that import torch; the group's timeout, which no test may run into, is 100
LONG = pytest.mark.long


def raised(end: End, *patterns: str) -> None:
    """It ended by an exception, and said so."""
    assert end.kinds, end
    for pattern in patterns:
        assert re.search(pattern, end.text), (pattern, end.text)


def soon(case: Callable[..., Any], folder: Path) -> list[End]:
    begin = time.monotonic()
    ends = launch(case, 3, folder)
    assert time.monotonic() - begin < SOON
    return ends


@pytest.mark.parametrize(
    "case",
    [
        cases.killed_in_backward,
        pytest.param(cases.killed_in_a_hook, marks=LONG),
        pytest.param(cases.killed_in_shards, marks=LONG),
    ],
    ids=lambda case: case.__name__,
)
def test_a_death_in_the_backward_pass(tmp_path: Path, case: Callable[..., Any]) -> None:
    ends = soon(case, tmp_path)
    assert ends[1].status == -signal.SIGKILL
    for rank in (0, 2):
        raised(ends[rank], r"rank 1\b", "unisono:(all_reduce|_?all_gather|_?reduce_scatter)", "died|ended|killed")


@pytest.mark.parametrize("where", ["forward", pytest.param("backward", marks=LONG)])
def test_an_exception_in_a_pass(tmp_path: Path, where: str) -> None:
    ends = soon(cases.raises_in_forward if where == "forward" else cases.raises_in_backward, tmp_path)
    raised(ends[1], "ValueError", f"the {where} pass of rank 1 went wrong")
    for rank in (0, 2):
        raised(ends[rank], r"rank 1\b", "unisono:")


def test_another_model(pair: Pair) -> None:
    first, second, *_ = pair.run("unisono", cases.other_model)
    assert "appears not to match sizes" in second
    assert "rank 1" in first


def test_forgotten_find_unused_parameters(pair: Pair) -> None:
    first, *others = pair.run("unisono", cases.forgotten_parameters)
    assert "find_unused_parameters=True" in first
    assert all("rank 0" in text for text in others), others


@pytest.mark.parametrize("detail", [False, True], ids=["", "DETAIL"])
def test_another_collective(pair: Pair, detail: bool) -> None:
    for text in pair.run("unisono", cases.other_collective, detail=detail):
        assert re.search("(?i)broadcast", text) and re.search("(?i)all_?reduce", text), text


def test_other_shapes_in_flight(pair: Pair) -> None:
    for text in pair.run("unisono", cases.other_shapes_in_flight):
        assert "of 1000 elements" in text and "of 1001 elements" in text


def test_another_device(pair: Pair) -> None:
    for texts in pair.run("unisono", cases.other_device):
        assert all("cpu:unisono,cuda:nccl" in text for text in texts[:6]), texts
        assert all("cuda" in text for text in texts[6:]), texts


def test_tensors_that_are_freed_early(pair: Pair) -> None:
    assert pair.run("unisono", cases.freed_early) == [50] * pair.size


def test_failures_leave_nothing_behind(pair: Pair, tmp_path: Path) -> None:
    for counts in pair.run("unisono", cases.failures_leave_nothing, folder=str(tmp_path)):
        assert all(last <= early for last, early in zip(counts[-1], counts[1], strict=True)), counts

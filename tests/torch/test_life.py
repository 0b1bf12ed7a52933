"""How groups come to be and end, also badly, over the back end "unisono"."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch back end needs torch: pip install torch==2.13.0")

import life_cases as cases  # noqa: E402
from torch_job import End, free_port, launch, values  # noqa: E402


@pytest.mark.parametrize("how", ["env", "tcp", "file", "store", "devices"])
def test_all_ways_to_meet_twice(tmp_path: Path, how: str) -> None:
    assert values(launch(cases.through, 2, tmp_path, how=how, port=free_port())) == [how] * 2


def test_what_the_program_says_wins_over_half_an_environment(tmp_path: Path) -> None:
    values(launch(cases.half_an_environment, 2, tmp_path))


def test_groups_leave_nothing_behind(tmp_path: Path) -> None:
    for counts in values(launch(cases.descriptors_and_memory, 2, tmp_path)):
        assert counts[-1] <= counts[1], counts


def failed(end: End, kind: str, *patterns: str) -> None:
    """It raised that, and said so."""
    assert kind in end.kinds, end
    for pattern in patterns:
        assert re.search(pattern, end.text), (pattern, end.text)


@pytest.mark.parametrize("async_op", [False, True], ids=["blocking", "future"])
def test_a_dead_rank_is_named(tmp_path: Path, async_op: bool) -> None:
    ends = launch(cases.killed, 3, tmp_path, async_op=async_op)
    assert ends[1].status == -signal.SIGKILL
    for rank in (0, 2):
        failed(ends[rank], "RuntimeError" if async_op else "DistBackendError", "rank 1", "unisono:all_reduce")


def test_a_mismatch_shows_both_calls(tmp_path: Path) -> None:
    for end in launch(cases.mismatched, 2, tmp_path):
        failed(end, "DistBackendError", "of 3 elements", "of 4 elements")


@pytest.mark.parametrize("how", ["recv", "irecv", "all_reduce"])
def test_ranks_that_wait_for_each_other_are_told(tmp_path: Path, how: str) -> None:
    for end in launch(cases.waiting_for_each_other, 2, tmp_path, how=how):
        failed(end, "DistBackendError", r"ranks 0 and 1 wait for each other: rank 0 \(host .*recv\(src=1, tag=0\)")


@pytest.mark.parametrize("what", ["gather", "scatter"])
def test_what_only_the_root_can_see_reaches_all(tmp_path: Path, what: str) -> None:
    for text in values(launch(cases.uneven_at_the_root, 3, tmp_path, what=what)):
        assert "tensor 1 of the list has 4 elements" in text and "abort" in text, text


@pytest.mark.parametrize("how", ["group", "call", "set"])
def test_a_timeout_names_who_is_missing(tmp_path: Path, how: str) -> None:
    ends = launch(cases.late, 2, tmp_path, how=how)
    assert ends[0].good, ends[0]
    failed(ends[1], "DistBackendError", " timeout ", "rank 0", "unisono:barrier")


def test_abort_reaches_everybody(tmp_path: Path) -> None:
    for text in values(launch(cases.aborted, 3, tmp_path)):
        assert "aborted by rank 0" in text


@pytest.mark.parametrize("how", ["blocking", "async"])
def test_ctrl_c_ends_a_wait(tmp_path: Path, how: str) -> None:
    assert values(launch(cases.stopped_by_hand, 2, tmp_path, how=how))[0] == "interrupted"


def test_an_exception_on_one_rank_ends_all(tmp_path: Path) -> None:
    ends = launch(cases.raises_in_the_middle, 3, tmp_path)
    failed(ends[1], "ValueError", "forward pass")
    for rank in (0, 2):
        failed(ends[rank], "DistBackendError", "rank 1")


@pytest.mark.parametrize("raised", [False, True])
def test_daemon_threads_do_not_change_how_a_program_ends(tmp_path: Path, raised: bool) -> None:
    ends = launch(cases.ends_beside_daemons, 2, tmp_path, raised=raised)
    assert [end.status for end in ends] == [0, 1 if raised else 0]


def test_what_was_sent_arrives(tmp_path: Path) -> None:
    values(launch(cases.leaves_without_destroying, 2, tmp_path))


def test_who_ends_does_so_with_patience(tmp_path: Path) -> None:
    assert values(launch(cases.ends_in_the_middle, 3, tmp_path)) == [1.0] * 3


def test_who_ends_in_the_middle_is_heard(tmp_path: Path) -> None:
    _, second = values(launch(cases.hangs_at_the_end, 2, tmp_path))
    assert "rank 0" in second, second


@pytest.mark.parametrize("wait_all_ranks", [False, True])
def test_monitored_barrier_names_who_is_missing(tmp_path: Path, wait_all_ranks: bool) -> None:
    first, _, _, last = values(launch(cases.monitored, 4, tmp_path, wait_all_ranks=wait_all_ranks))
    missing = "Ranks 1, 2" if wait_all_ranks else "Rank 1"
    assert f"{missing} failed to pass monitoredBarrier in 1000 ms" in first
    assert "Rank 3 successfully reached monitoredBarrier, but received errors while waiting for" in last


def test_torchs_own_checks_work(tmp_path: Path) -> None:
    for text in values(launch(cases.watched_by_torch, 3, tmp_path, env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})):
        assert "collective" in text.lower(), text

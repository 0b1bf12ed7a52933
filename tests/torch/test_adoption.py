"""Ordinary tensors that collectives come back to: when their memory is shared, and that only the time shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch back end needs torch: pip install torch==2.13.0")

import adoption_cases as cases  # noqa: E402
from torch_job import launch, values  # noqa: E402

pytest_plugins = ["compiled_alone"]


def test_the_third_use_shares_it(tmp_path: Path) -> None:
    assert values(launch(cases.comes_back, 2, tmp_path)) == [[False, False, True, True]] * 2


@pytest.mark.parametrize("env", [{"UNISONO_SHARE_MEMORY": "0"}, {"UNISONO_TRANSPORT": "tcp"}], ids=["off", "tcp"])
def test_not_where_it_is_switched_off_or_useless(tmp_path: Path, env: dict[str, str]) -> None:
    assert values(launch(cases.comes_back_private, 2, tmp_path, env=env)) == [[False] * 4] * 2


@pytest.mark.parametrize(
    ("ranks", "helped"), [(3, True), pytest.param(5, False, marks=pytest.mark.long)], ids=["3", "5"]
)
def test_what_others_reach_is_shared(tmp_path: Path, ranks: int, helped: bool) -> None:
    root, *others = values(launch(cases.every_collective, ranks, tmp_path))
    by_all = {"all_gather": [True, False], "reduce_scatter": [False, True], "all_to_all": [False, True]}
    expected = by_all | {"broadcast": [True, False], "reduce": [True, False]}
    assert root == expected | {"gather": [False, True], "scatter": [False, True]}
    for other in others:  # among few ranks the root does a part of the others' copies
        assert other == expected | {"gather": [helped, False], "scatter": [helped, False]}


def test_messages_share_it_too(tmp_path: Path) -> None:
    assert values(launch(cases.messages, 2, tmp_path)) == [[True, True]] * 2


def test_operations_under_way_lose_nothing(tmp_path: Path) -> None:
    assert values(launch(cases.in_a_row, 2, tmp_path)) == [True, True]


def test_what_stays_private(tmp_path: Path) -> None:
    values(launch(cases.stays_private, 2, tmp_path))


def test_it_ends_with_the_tensor(tmp_path: Path) -> None:
    values(launch(cases.is_freed, 2, tmp_path))


def test_a_forked_child_has_its_own(tmp_path: Path) -> None:
    values(launch(cases.forked, 2, tmp_path))


def test_who_forked_before_is_not_punished(tmp_path: Path) -> None:
    assert values(launch(cases.forked_before, 2, tmp_path)) == [True, True]

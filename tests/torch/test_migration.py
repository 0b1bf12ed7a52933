"""What docs/migration.md says of both back ends. Where Gloo's part fails, torch has mended it: change the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import migration_cases as cases
import pytest
import torch
from chosen import in_python
from hook_world import World
from unisono.torch import _versions

RANKS = 3
FROM_2_14 = _versions.parts(torch.__version__) >= (2, 14)
FROM_2_15 = _versions.parts(torch.__version__) >= (2, 15)


class Both:
    """A world for each back end, made when it is asked for, and made anew after a failure on Gloo."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._worlds, self._made = folder, dict[str, World](), 0

    def run(self, backend: str, case: Callable[..., Any]) -> list[Any]:
        """What the case returns on each rank."""
        if backend not in self._worlds:
            self._made += 1
            folder = self._folder / str(self._made)
            folder.mkdir()
            self._worlds[backend] = World(backend, RANKS, folder)
        try:
            return self._worlds[backend].run(case)
        except AssertionError:
            self.forget(backend)
            raise

    def forget(self, backend: str) -> None:
        """End a world whose group is of no use any more."""
        self._worlds.pop(backend).kill()

    def close(self) -> None:
        for world in self._worlds.values():
            world.close()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    both = Both(tmp_path_factory.mktemp("both"))
    yield both
    both.close()


def test_reduce_leaves_other_ranks_tensors_alone(both: Both) -> None:
    assert both.run("unisono", cases.reduce_leaves_inputs) == [[6, 6], [2, 2], [3, 3]]
    assert both.run("gloo", cases.reduce_leaves_inputs)[1:] != [[2, 2], [3, 3]]


def test_strided_tensors(both: Both) -> None:
    assert both.run("unisono", cases.strided) == [True] * RANKS
    assert both.run("gloo", cases.strided) == [True, False, False]


@pytest.mark.parametrize(
    ("case", "expected", "of_gloo"),
    [
        (cases.uneven_all_gather, [[1, 4, 9]] * RANKS, "invalid tensor size"),
        (cases.small_integers, [[6, 6, 6]] * RANKS, "Invalid scalar type"),
        (cases.reduce_scatter_has_a_future, [[0, 3], [6, 9], [12, 15]], "getFuture not implemented"),
    ],
    ids=lambda part: part.__name__ if callable(part) else "",
)
def test_what_gloo_refuses(both: Both, case: Callable[..., Any], expected: Any, of_gloo: str) -> None:
    assert both.run("unisono", case) == expected
    with pytest.raises(AssertionError, match=of_gloo):
        both.run("gloo", case)


@pytest.mark.parametrize("backend", ["unisono", "gloo"])
def test_what_both_do(both: Both, backend: str) -> None:
    assert both.run(backend, cases.average) == [[1.0] * 5] * RANKS
    assert both.run(backend, cases.barriers) == [""] * RANKS


@pytest.mark.skipif(FROM_2_14, reason="SKIPPED: torch 2.14 names the second group differently on different ranks")
@pytest.mark.parametrize("backend", ["unisono", "gloo"])
def test_a_group_that_its_members_make(both: Both, backend: str) -> None:
    assert both.run(backend, cases.members_only) == [RANKS] * RANKS


def test_the_mean_of_integers(both: Both) -> None:
    sums = [x * RANKS * (RANKS + 1) // 2 for x in (3, -3, 1)]
    assert both.run("unisono", cases.average_of_integers) == [("", [int(s / RANKS) for s in sums])] * RANKS
    for said, _ in both.run("gloo", cases.average_of_integers):
        assert "result type Float can't be cast" in said


def test_names(both: Both) -> None:
    for ours in both.run("unisono", cases.names):
        assert (ours["get_backend"], ours["name"], ours["logged"]) == ("unisono", "custom", "custom")
        refused = ours["monitored_barrier"]
        assert refused == "" if FROM_2_14 else "only implemented for GLOO" in refused
        # Before 2.15 torch refuses to ask back ends in C++ that it does not know; it asks a group
        # in Python itself.
        assert (ours["split_group"] == "") == FROM_2_15, ours["split_group"]
        assert ours["recorded_by_torch"] == 0
        answers = in_python() or FROM_2_15
        assert ours["sequence"] == "" if answers else "sequence numbers" in ours["sequence"]
    for theirs in both.run("gloo", cases.names):
        assert theirs["monitored_barrier"] == theirs["sequence"] == ""
        assert (theirs["split_group"] == "") == FROM_2_15


def test_a_mismatch_is_told_to_all(both: Both) -> None:
    for said in both.run("unisono", cases.mismatch):
        assert "DistBackendError" in said and "does not match" in said
        calls = re.findall(r"rank (\d) called all_reduce f32 sum of (\d+) elements", said)
        assert len(set(calls)) == 2 and all(int(count) == 10 + int(rank) for rank, count in calls)
    both.forget("unisono")


def test_a_death_is_told_to_all(both: Both) -> None:
    with pytest.raises(AssertionError) as told:
        both.run("unisono", cases.death)
    for rank in range(RANKS - 1):
        own = str(told.value).split(f"rank {rank}: Traceback")[1].split("\nrank ")[0]
        assert "DistBackendError" in own and f"rank {RANKS - 1}" in own


def test_ranks_of_one_host_share_memory(both: Both) -> None:
    assert both.run("unisono", cases.transport) == ["shm"] * RANKS

"""torch.distributed.checkpoint over "unisono": what was saved by some ranks is loaded by others, in other shards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the PyTorch back end needs torch: pip install torch==2.13.0")

import checkpoint_cases as cases  # noqa: E402
from backend_pair import Pair, agree, flat  # noqa: E402
from hook_world import World  # noqa: E402

pytest_plugins = ["pair_fixtures"]


def check(loaded: list[tuple[list[np.ndarray], int]]) -> None:
    for arrays, step in loaded:
        assert step == 12
        agree(arrays, [*(flat([value]) for value in cases.values().values()), np.arange(3.0)])


@pytest.mark.parametrize("asynchronous", [False, True], ids=["save", "async_save"])
@pytest.mark.parametrize(("saved", "loaded"), [("S0", "S1"), ("S1", "R"), ("R", "S0")])
def test_other_shards(pair: Pair, tmp_path: Path, saved: str, loaded: str, asynchronous: bool) -> None:
    pair.run("unisono", cases.save, folder=str(tmp_path / "ours"), placement=saved, asynchronous=asynchronous)
    check(pair.run("unisono", cases.load, folder=str(tmp_path / "ours"), placement=loaded))
    check(pair.run("gloo", cases.load, folder=str(tmp_path / "ours"), placement=loaded))


def test_another_number_of_ranks(pair: Pair, tmp_path: Path) -> None:
    pair.run("unisono", cases.save, folder=str(tmp_path / "all"), placement="S0", asynchronous=False)
    (tmp_path / "alone").mkdir()
    world = World("unisono", 1, tmp_path / "alone")
    try:
        check(world.run(cases.load, folder=str(tmp_path / "all"), placement="S1"))
    finally:
        world.close()


def test_training_goes_on_where_it_stopped(pair: Pair, tmp_path: Path) -> None:
    for through, resumed in pair.run("unisono", cases.resume, folder=str(tmp_path / "training")):
        np.testing.assert_array_equal(through, resumed)

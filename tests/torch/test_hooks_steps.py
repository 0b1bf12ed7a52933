"""Steps: where they begin and end, how reducers are exchanged and nested, and what mistakes are told."""

from __future__ import annotations

from typing import Any

import hook_cases as cases
import numpy as np
import pytest
from hook_world import World

pytest_plugins = ["hook_fixtures"]

NESTED: list[tuple[Any, ...]] = [
    ("Mean", {}),
    ("Half", {}),
    ("WeightedMean", {}),
    ("PowerSGD", {"rank": 2}),
    ("TopK", {"share": 0.1}),
    ("WeightedMean", {}, ("ClippedNoisy", {"norm": 5.0, "noise": 0.0}, ("PowerSGD", {"rank": 1}))),
]


def test_begin_buckets_end(world: World) -> None:
    for said in world.run(cases.life_of_a_reducer):
        calls = said["first"]
        assert [call for call in calls if not call.startswith("bucket")] == ["begin 0", "end 0", "begin 1", "end 1"]
        for step in ("0", "1"):
            within = calls[calls.index(f"begin {step}") + 1 : calls.index(f"end {step}")]
            assert within == [f"bucket {i}{' last' if i == len(within) - 1 else ''}" for i in range(len(within))]
        assert len(within) > 1, "a single bucket shows little"
        assert said["second"][0] == "begin 2" and said["second"][-1] == "end 2"
        assert "register once" in said["again"]


def test_a_state_can_be_pickled_without_its_group(world: World) -> None:
    for step, calls in world.run(cases.pickled):
        assert step == 1 and calls == ["begin 1", "bucket 0 last", "end 1"]


def test_reducers_exchanged_in_every_step_leave_all_ranks_with_the_same_model(world: World) -> None:
    """Many small buckets, two reductions each, nested: an order that differs between ranks would show here."""
    results = world.run(cases.training, reducers=NESTED, steps=60)
    for parameters, loss in results:
        assert np.array_equal(parameters, results[0][0])
        assert np.isfinite(loss)


@pytest.mark.parametrize("reducer", NESTED, ids=lambda reducer: reducer[0])
def test_it_learns_with_each_reducer(world: World, reducer: tuple[Any, ...]) -> None:
    (_, before), (_, after) = (world.run(cases.training, reducers=[reducer], steps=steps)[0] for steps in (1, 60))
    assert after < 0.9 * before


def test_buckets_of_two_models_in_one_state_are_a_mistake(world: World) -> None:
    for rank, said in enumerate(world.run(cases.refusal, case=cases.buckets_of_two_models)):
        assert f"rank {rank}: gradient bucket 2 came where 1 was expected" in said and "make a Steps for each" in said


def test_a_step_after_one_that_failed(world: World) -> None:
    for calls in world.run(cases.a_step_that_fails):
        assert calls == ["begin 0", "bucket 0", "begin 0", "bucket 0", "bucket 1 last", "end 0"]


def test_sparse_gradients_are_refused(world: World) -> None:
    for said in world.run(cases.refusal, case=cases.sparse_gradient):
        assert "sparse=False" in said

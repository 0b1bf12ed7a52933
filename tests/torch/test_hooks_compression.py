"""Top-k and PowerSGD: nothing of a gradient is lost, and where nothing is left out the mean is exact."""

from __future__ import annotations

from typing import Any

import hook_cases as cases
import numpy as np
import pytest
import torch
from hook_world import World
from unisono.torch import hooks

pytest_plugins = ["hook_fixtures"]

SHAPES = [(20, 30), (7,), (15, 3, 4), (64,), (11, 9), (5,)]  # several buckets, which DDP puts in another order
COMPRESSORS: list[tuple[Any, ...]] = [
    ("TopK", {"share": 0.05}),
    ("TopK", {"share": 0.3}),
    ("PowerSGD", {"rank": 1}),
    ("PowerSGD", {"rank": 2, "warm_start": False}),
    ("PowerSGD", {"rank": 2, "dense_steps": 2}),
]
LOSSLESS: list[tuple[Any, ...]] = [
    ("TopK", {"share": 1.0}),
    ("PowerSGD", {"rank": 40, "least_gain": 0.0}),
    ("PowerSGD", {"rank": 1, "dense_steps": 100}),
    ("WeightedMean", {}, ("PowerSGD", {"rank": 40, "least_gain": 0.0})),
    ("WeightedMean", {}, ("TopK", {"share": 1.0})),
    ("ClippedNoisy", {"norm": 1e9, "noise": 0.0}, ("TopK", {"share": 1.0})),
]


def name(reducer: tuple[Any, ...]) -> str:
    return "-".join([reducer[0], *(f"{k}={v}" for k, v in reducer[1].items()), *(name(part) for part in reducer[2:])])


@pytest.mark.parametrize("reducer", COMPRESSORS, ids=name)
def test_what_was_sent_and_what_is_left_is_everything(world: World, reducer: tuple[Any, ...]) -> None:
    results = world.run(cases.feedback, reducer=reducer, shapes=SHAPES, steps=5)
    reduced = results[0][0]
    own, left = (np.sum([result[part] for result in results], axis=0) for part in (1, 2))
    np.testing.assert_allclose(reduced * world.size + left, own, rtol=1e-11, atol=1e-8)
    assert left.any(), "nothing was left out: this did not compress"
    for result in results:
        assert np.array_equal(result[0], reduced), "ranks have different gradients"


def test_top_k_sends_the_largest(world: World) -> None:
    share, count = 0.1, 40 * 30
    wanted = np.random.default_rng(3).permutation(count).astype(float) + 1
    (first,) = world.run(cases.repeated, reducer=("TopK", {"share": share}), wanted=wanted, shape=(40, 30), steps=1)[0]
    np.testing.assert_allclose(first, np.where(wanted > count * (1 - share), wanted, 0.0), rtol=1e-12)


def test_top_k_comes_to_small_entries_in_time(world: World) -> None:
    """With a tenth sent in each step, every entry has gone out after some steps, as often as it was there."""
    wanted = np.ones(50)
    steps = world.run(cases.repeated, reducer=("TopK", {"share": 0.1}), wanted=wanted, shape=(50,), steps=10)[0]
    np.testing.assert_allclose(np.count_nonzero(steps, axis=1), 5)
    assert (np.sum(steps, axis=0) > 0).all()


@pytest.mark.parametrize("reducer", LOSSLESS, ids=name)
def test_without_loss_it_is_the_mean(world: World, reducer: tuple[Any, ...]) -> None:
    counts = [[4] * world.size] * 3
    for results in world.run(cases.gradients, reducer=reducer, counts=counts):
        for step, (ours, _) in enumerate(results):
            batch = [cases.samples(rank, step, 4) for rank in range(world.size)]
            np.testing.assert_allclose(ours, cases.alone(batch), rtol=1e-10, atol=1e-12)


def test_weights_around_compression(world: World) -> None:
    """Weights differ, one is 0, and nothing is left out: the gradient of the joined batch."""
    counts = [[3 * rank for rank in range(world.size)]] * 3
    for reducer in LOSSLESS[3:5]:
        for results in world.run(cases.gradients, reducer=reducer, counts=counts):
            for step, (ours, _) in enumerate(results):
                batch = [cases.samples(rank, step, 3 * rank) for rank in range(world.size)]
                np.testing.assert_allclose(ours, cases.alone(batch), rtol=1e-10, atol=1e-12)


def test_power_sgd_of_a_matrix_of_low_rank_is_exact(world: World) -> None:
    random = np.random.default_rng(5)
    wanted = random.standard_normal((40, 2)) @ random.standard_normal((2, 30))
    (first,) = world.run(cases.repeated, reducer=("PowerSGD", {"rank": 2}), wanted=wanted, shape=(40, 30), steps=1)[0]
    np.testing.assert_allclose(first, wanted.ravel(), rtol=1e-9, atol=1e-10)


def test_power_sgd_makes_up_for_what_it_leaves_out(world: World) -> None:
    """Spectrum 1, 1/2, 1/4, ...: the mean of some steps is closer than any matrix of that rank could be."""
    random = np.random.default_rng(6)
    left, right = (np.linalg.qr(random.standard_normal((size, 20)))[0] for size in (40, 30))
    wanted = (left * 0.5 ** np.arange(20)) @ right.T
    best = np.sqrt(np.sum(0.25 ** np.arange(2, 20)))
    steps = {}
    for warm in (True, False):
        reducer = ("PowerSGD", {"rank": 2, "warm_start": warm})
        steps[warm] = world.run(cases.repeated, reducer=reducer, wanted=wanted, shape=(40, 30), steps=12)[0]
        assert np.linalg.norm(np.mean(steps[warm], axis=0) - wanted.ravel()) < best / 2
    assert np.array_equal(steps[True][0], steps[False][0])
    assert not np.allclose(steps[True][1], steps[False][1]), "a warm start begins like a cold one"


@pytest.mark.parametrize("reducer", COMPRESSORS, ids=name)
def test_a_checkpoint_continues_where_it_was(world: World, reducer: tuple[Any, ...]) -> None:
    for unbroken, resumed in world.run(cases.resumed, reducer=reducer, shapes=SHAPES):
        np.testing.assert_allclose(unbroken, resumed, rtol=1e-9, atol=1e-9)


def test_a_checkpoint_of_another_model_is_refused() -> None:
    with pytest.raises(KeyError, match="no parameters nobody"):
        hooks.TopK().load_state_dict(cases.network(), {"nobody": torch.zeros(1)})


@pytest.mark.parametrize("reducer", COMPRESSORS, ids=name)
def test_ranks_that_joined_pay_what_they_owe(world: World, reducer: tuple[Any, ...]) -> None:
    results = world.run(cases.joined_feedback, reducer=reducer, shapes=SHAPES, batches=[1 + 2 * r for r in range(3)])
    reduced = results[world.size - 1][0]  # the rank that took every step
    own, left = (np.sum([result[part] for result in results], axis=0) for part in (1, 2))
    np.testing.assert_allclose(reduced * world.size + left, own, rtol=1e-11, atol=1e-8)

"""Clipping and noise: the whole step is clipped, the noise is as wide as it was said, and doubt ends the step."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any

import hook_cases as cases
import numpy as np
import pytest
from hook_world import World
from unisono.torch import hooks

pytest_plugins = ["hook_fixtures"]

SHAPES = [(60, 50), (7,), (80, 50), (64,)]
COUNT = 60 * 50 + 7 + 80 * 50 + 64
SEEDS = [11, 22, 33]


@pytest.mark.parametrize("scale", [1e-9, 1.0])
def test_the_whole_step_is_clipped(world: World, scale: float) -> None:
    results = world.run(cases.noised, norm=2.5, noise=0.0, seeds=SEEDS, shapes=SHAPES, scale=scale)
    clipped = []
    for rank in range(world.size):
        own = scale * cases.integer_gradient(rank, 0, COUNT).numpy()
        clipped.append(own * min(1.0, 2.5 / np.linalg.norm(own)))
    assert (np.linalg.norm(clipped[0]) < 2) == (scale < 1)
    for ours in results:
        np.testing.assert_allclose(ours, np.mean(clipped, axis=0), rtol=1e-12, atol=1e-20)


def test_the_noise_of_all_ranks_together_is_as_wide_as_it_was_said(world: World) -> None:
    norm, noise = 3.0, 1.7
    results = world.run(cases.noised, norm=norm, noise=noise, seeds=SEEDS, shapes=SHAPES, scale=0.0)
    expected = noise * norm / world.size
    # The deviation of an estimate of a deviation from N samples is 1/sqrt(2N) of it; five of them.
    assert results[0].std() == pytest.approx(expected, rel=5 / math.sqrt(2 * COUNT))
    assert abs(results[0].mean()) < 5 * expected / math.sqrt(COUNT)
    for ours in results:
        assert np.array_equal(ours, results[0]), "ranks have different gradients"


def test_seeds_make_it_repeatable_and_other_seeds_other_noise(world: World) -> None:
    arguments = {"norm": 1.0, "noise": 1.0, "shapes": SHAPES, "scale": 0.0}
    first, again, other = (world.run(cases.noised, seeds=seeds, **arguments)[0] for seeds in (SEEDS, SEEDS, [4, 5, 6]))
    assert np.array_equal(first, again)
    assert abs(np.corrcoef(first, other)[0, 1]) < 5 / math.sqrt(COUNT)


def test_the_same_noise_on_two_ranks_is_refused(world: World) -> None:
    seeds = [7, 8, 8] if world.size == 3 else [8, 8]
    twins = [1, 2] if world.size == 3 else [0, 1]
    arguments = {"norm": 1.0, "noise": 1.0, "seeds": seeds, "shapes": SHAPES, "scale": 0.0}
    for said in world.run(cases.refusal, case=cases.noised, **arguments):
        assert f"ranks {twins} would draw the same noise" in said


@pytest.mark.parametrize("scale", [math.nan, math.inf])
def test_a_gradient_that_cannot_be_clipped_is_not_sent(world: World, scale: float) -> None:
    arguments = {"norm": 1.0, "noise": 0.0, "seeds": SEEDS, "shapes": SHAPES, "scale": scale}
    for rank, said in enumerate(world.run(cases.refusal, case=cases.noised, **arguments)):
        assert "cannot be clipped: nothing was sent" in said and f"rank {rank}, step 0" in said


def test_a_rank_that_joined_still_adds_its_noise(world: World) -> None:
    reducer: tuple[Any, ...] = ("ClippedNoisy", {"norm": 1.0, "noise": 500.0}, ("Mean", {}))
    batches = [1] * (world.size - 1) + [2]
    last = world.run(cases.joined, reducer=reducer, batches=batches)[-1][1][0]
    # Noise of one rank alone would be narrower by the root of the ranks; the gradient itself is nothing beside it.
    assert last.std() == pytest.approx(500.0 / world.size, rel=5 / math.sqrt(2 * len(last)))


def test_weights_inside_are_refused() -> None:
    for inner in (hooks.WeightedMean(), cases.Recorder(hooks.WeightedMean())):
        with pytest.raises(ValueError, match=r"WeightedMean\(ClippedNoisy"):
            hooks.ClippedNoisy(inner, norm=1.0, noise=1.0)


class Signs(hooks.StepReducer):
    """A user's own, which does not say that it reduces by sums."""

    def reduce(self, ctx: hooks.StepContext, bucket: hooks.Bucket) -> Any:
        raise NotImplementedError


def test_what_leaves_shares_of_noise_out_is_refused_inside() -> None:
    private = hooks.ClippedNoisy(hooks.Mean(), norm=1.0, noise=1.0)
    # Twice clipped and noised: the inner clipping would scale the outer noise.
    refused: list[hooks.StepReducer] = [hooks.TopK(), cases.Recorder(hooks.TopK()), Signs(), private]
    taken: list[hooks.StepReducer] = [hooks.Mean(), hooks.Half(), hooks.PowerSGD(), cases.Recorder(hooks.Mean())]
    for inner in refused:
        with pytest.raises(ValueError, match="would not add up to what is promised"):
            hooks.ClippedNoisy(inner, norm=1.0, noise=1.0)
    hooks.ClippedNoisy(hooks.TopK(), norm=1.0, noise=0)  # clips only
    private.inner = hooks.TopK()
    with pytest.raises(ValueError, match="would not add up to what is promised"):
        private.begin_step(cases.nobodys_step())
    for inner in taken:
        hooks.ClippedNoisy(inner, norm=1.0, noise=1.0)


@pytest.mark.parametrize("inner", ["Mean", pytest.param("Half", marks=pytest.mark.long), "PowerSGD"])
def test_who_was_there_is_guessed_no_better_than_the_gaussian_bound(world: World, inner: str) -> None:
    """Whether rank 0's data was there, by the best guess along its gradient; TopK inside gave 94.7 %."""
    trials, noise = 400, 0.5
    right = world.run(cases.guesses, inner=inner, noise=noise, trials=trials)[0]
    bound = 0.5 * (1 + math.erf(1 / (2 * noise) / math.sqrt(2)))
    assert right / trials < bound + 4 * math.sqrt(bound * (1 - bound) / trials)


def test_statistics_that_ddp_broadcasts_without_noise_are_named(world: World) -> None:
    for said in world.run(cases.warned_of_buffers):
        assert said == [True, False, False]


def test_the_worked_example_of_the_docs_is_what_an_accountant_says() -> None:
    accounting = pytest.importorskip("dp_accounting", reason="SKIPPED: dp-accounting is not installed")
    text = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text()
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", text, flags=re.MULTILINE)
    assert len(rows) >= 4
    if not os.environ.get("UNISONO_TEST_LONG"):
        rows = rows[::3]  # the accountant takes seconds for each
    for noise, *said in rows:
        for steps, epsilon in zip((1, 100), said, strict=True):
            accountant = accounting.pld.PLDAccountant()
            accountant.compose(accounting.GaussianDpEvent(float(noise)), steps)
            assert accountant.get_epsilon(1e-5) == pytest.approx(float(epsilon), rel=0.02), (noise, steps)


@pytest.mark.parametrize(("norm", "noise"), [(0.0, 1.0), (-1.0, 1.0), (math.nan, 1.0), (1.0, -1.0), (1.0, math.inf)])
def test_parameters_that_promise_nothing_are_refused(norm: float, noise: float) -> None:
    with pytest.raises(ValueError, match="the norm must be positive"):
        hooks.ClippedNoisy(hooks.Mean(), norm=norm, noise=noise)


def test_without_a_generator_noise_is_nobodys_to_foresee() -> None:
    first, second = (hooks.ClippedNoisy(hooks.Mean(), norm=1.0, noise=1.0) for _ in range(2))
    assert first.generator.initial_seed() != second.generator.initial_seed()

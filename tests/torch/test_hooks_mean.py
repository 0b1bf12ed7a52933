"""Means over ranks: exact, in 16 bits, and weighted, against one process and the joined batch."""

from __future__ import annotations

import math
from typing import Any

import hook_cases as cases
import numpy as np
import pytest
import torch
from hook_world import World
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unisono.torch import hooks

pytest_plugins = ["hook_fixtures"]

SAMPLES = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
WEIGHTED: tuple[Any, ...] = ("WeightedMean", {})
SUMS: tuple[Any, ...] = ("WeightedMean", {"gradients": "sum"})
AROUND: tuple[Any, ...] = ("WeightedMean", {}, ("Mean", {}))


def joined_batch(by_rank: list[int], step: int = 0) -> np.ndarray:
    return cases.alone([cases.samples(rank, step, count) for rank, count in enumerate(by_rank)])


def test_all_reduce_is_what_ddp_does_by_itself(world: World) -> None:
    for ours, theirs in world.run(cases.plain_hook, name="all_reduce"):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("name", "bits"), [("fp16_compress", 11), ("bf16_compress", 8)])
def test_sixteen_bits_are_as_precise_as_they_can_be(world: World, name: str, bits: int) -> None:
    results = world.run(cases.plain_hook, name=name)
    for ours, theirs in results:
        # Each of n roundings of a part, and those of the sum, are relative to the largest part.
        np.testing.assert_allclose(ours, theirs, atol=world.size * 2.0 ** (1 - bits) * np.abs(theirs).max())
        assert not np.array_equal(ours, theirs), "nothing was rounded: it did not go through 16 bits"
        assert np.array_equal(ours, results[0][0]), "ranks have different gradients"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bits_do_not_overflow_in_the_sum(world: World, dtype: str) -> None:
    reducer = ("Half", {"dtype": getattr(torch, dtype)})
    for smallest, largest in world.run(cases.constant_gradient, value=61440.0, reducer=reducer):
        assert 61440 * 0.99 <= smallest <= largest <= 61440 * 1.01  # the sum over two ranks is no float16


@SAMPLES
@given(data=st.data())
@pytest.mark.parametrize("reducer", [WEIGHTED, AROUND], ids=["fused", "around"])
def test_weighted_mean_is_the_gradient_of_the_joined_batch(world: World, reducer: Any, data: st.DataObject) -> None:
    counts = st.lists(st.integers(0, 7), min_size=world.size, max_size=world.size)
    steps = data.draw(st.lists(counts, min_size=1, max_size=3))
    for results in world.run(cases.gradients, reducer=reducer, counts=steps):
        for step, (ours, skipped) in enumerate(results):
            if sum(steps[step]) == 0:
                assert skipped and not ours.any()
            else:
                assert not skipped
                np.testing.assert_allclose(ours, joined_batch(steps[step], step), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "options",
    [
        {"gradient_as_bucket_view": True},
        {"static_graph": True},
        {"find_unused_parameters": True},
        {"bucket_cap_mb": 25},
    ],
    ids=lambda options: next(iter(options)),
)
def test_weighted_mean_with_the_options_of_ddp(world: World, options: dict[str, Any]) -> None:
    counts = [[1 + 2 * rank + step for rank in range(world.size)] for step in range(4)]
    for results in world.run(cases.gradients, reducer=WEIGHTED, counts=counts, options=options):
        for step, (ours, _) in enumerate(results):
            np.testing.assert_allclose(ours, joined_batch(counts[step], step), rtol=1e-12, atol=1e-13)


def test_equal_weights_are_the_mean(world: World) -> None:
    counts = [[4] * world.size] * 2
    weighted = world.run(cases.gradients, reducer=WEIGHTED, counts=counts)
    mean = world.run(cases.gradients, reducer=("Mean", {}), counts=counts)
    exact = math.log2(world.size).is_integer()  # then dividing does not round
    for ours, theirs in zip(weighted, mean, strict=True):
        for (a, _), (b, _) in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=0 if exact else 1e-13, atol=0 if exact else 1e-15)


def test_sums_over_samples_accumulate_under_no_sync(world: World) -> None:
    counts = [[2 + rank for rank in range(world.size)], [5 - rank for rank in range(world.size)]]
    for results in world.run(cases.gradients, reducer=SUMS, counts=counts, reduction="sum", passes=3):
        for step, (ours, _) in enumerate(results):
            batch = [cases.samples(r, 3 * step + p, n) for r, n in enumerate(counts[step]) for p in range(3)]
            np.testing.assert_allclose(ours, cases.alone(batch), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("reducer", [WEIGHTED, AROUND], ids=["fused", "around"])
def test_ranks_that_joined_weigh_nothing(world: World, reducer: Any) -> None:
    batches = [1 + 2 * rank for rank in range(world.size)]
    for rank, results in enumerate(world.run(cases.joined, reducer=reducer, batches=batches)):
        assert len(results) == batches[rank]
        for step, (ours, steps) in enumerate(results):
            present = [4 if step < batches[other] else 0 for other in range(world.size)]
            np.testing.assert_allclose(ours, joined_batch(present, step), rtol=1e-12, atol=1e-13)
            assert steps == max(batches)


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf, -math.inf, 1e-30, 1e30])
def test_weights_that_are_no_weights_are_refused(weight: float) -> None:
    mean = hooks.WeightedMean()
    with pytest.raises(ValueError, match="nothing was sent"):
        mean.weigh(weight)
    with pytest.raises(ValueError, match="nothing was sent"):
        hooks.federated_average(cases.network(), weight)


def test_a_second_weight_needs_sums() -> None:
    mean = hooks.WeightedMean()
    mean.weigh(3)
    with pytest.raises(RuntimeError, match='gradients="sum"'):
        mean.weigh(3)
    mean.forget()
    mean.weigh(4)


def test_a_missing_weight_is_an_error_on_the_backward_pass(world: World) -> None:
    for said in world.run(cases.refusal, case=cases.constant_gradient, value=1.0, reducer=WEIGHTED):
        assert "call weigh(...) before backward()" in said and "step 0" in said


@pytest.mark.parametrize("reducer", [WEIGHTED, AROUND], ids=["fused", "around"])
def test_no_data_has_no_say_even_when_it_is_not_finite(world: World, reducer: Any) -> None:
    for smallest, largest in world.run(cases.without_data, reducer=reducer):
        assert smallest == largest == 3.0


@SAMPLES
@given(weights=st.lists(st.floats(0, 1e6, allow_subnormal=False).map(lambda w: w if w > 1e-3 else 0.0), min_size=3))
def test_federated_average(world: World, weights: list[float]) -> None:
    total = sum(weights[: world.size])
    for rank, (tensors, found) in enumerate(world.run(cases.federated, weights=weights)):
        assert found == pytest.approx(total, rel=1e-6)
        mean = sum(w * (r + 1) for r, w in enumerate(weights[: world.size])) / total if total else rank + 1
        for tensor in tensors:
            precise = tensor.shape != (2, 3) and tensor.shape != (2,)  # that layer is bfloat16
            expected = rank + 1 if tensor.shape == () else mean  # batches seen: an integer, everybody's own
            np.testing.assert_allclose(tensor, expected, rtol=1e-6 if precise else 2**-8)

"""DistributedDataParallel with its options over "unisono": what Gloo and one process compute, to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the PyTorch back end needs torch: pip install torch==2.13.0")

import ddp_cases as cases  # noqa: E402
from backend_pair import BACKENDS, Pair, agree  # noqa: E402
from unisono.torch import _versions  # noqa: E402

pytest_plugins = ["pair_fixtures", "compiled_alone"]


def equal_on_all_ranks(results: list[Any]) -> None:
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gradient_as_bucket_view": True},
        {"static_graph": True},
        {"static_graph": True, "gradient_as_bucket_view": True},
        {"find_unused_parameters": True},
        {"bucket_cap_mb": 25, "broadcast_buffers": False},
    ],
    ids=lambda options: "+".join(options) or "plain",
)
@pytest.mark.parametrize("passes", [[1, 1, 1, 1], [1, 3, 2, 3]], ids=["", "no_sync"])
def test_training_is_that_of_one_process(pair: Pair, options: dict[str, Any], passes: list[int]) -> None:
    """The first step has one pass: torch's static graph, which is recorded there, does not accept no_sync in it."""
    ours, theirs = pair.both(cases.trained, options=options, passes=passes)
    equal_on_all_ranks(ours)
    agree(ours, theirs)
    agree(ours[0], cases.alone(pair.size, passes=passes), rtol=1e-4)


@pytest.mark.parametrize("view", [False, True], ids=["copy", "view"])
def test_parameters_that_some_ranks_do_not_use(pair: Pair, view: bool) -> None:
    options = {"find_unused_parameters": True, "gradient_as_bucket_view": view}
    ours, theirs = pair.both(cases.trained, options=options, unused=True)
    equal_on_all_ranks(ours)
    agree(ours, theirs)
    agree(ours[0], cases.alone(pair.size, unused=True), rtol=1e-4)


@pytest.mark.parametrize("divide_by_initial_world_size", [True, False])
def test_join_uneven_inputs(pair: Pair, divide_by_initial_world_size: bool) -> None:
    counts = [2 + rank for rank in range(pair.size)]
    ours, theirs = pair.both(cases.uneven, divide_by_initial_world_size=divide_by_initial_world_size, counts=counts)
    equal_on_all_ranks(ours)
    agree(ours, theirs)


def test_join_can_throw(pair: Pair) -> None:
    ours, theirs = pair.both(cases.uneven_throws, counts=[1] + [3] * (pair.size - 1))
    assert ours == theirs and all("has thrown" in text or "exhausted" in text for text in ours), ours


@pytest.mark.parametrize(
    "name",
    ["allreduce_hook", "fp16_compress_hook", "fp16_wrapper", "power_sgd", "builtin_allreduce", "builtin_fp16_compress"],
)
def test_torchs_own_hooks(pair: Pair, name: str) -> None:
    ours, theirs = pair.both(cases.hooked, name=name)
    equal_on_all_ranks(ours)
    rough = {"rtol": 2e-3, "atol": 1e-3} if "fp16" in name else {"rtol": 1e-4, "atol": 1e-5}
    agree(ours, theirs, **rough)


def test_torchs_bf16_hook(pair: Pair) -> None:
    if _versions.parts(torch.__version__) < (2, 14):
        for text in pair.told("unisono", cases.hooked, name="bf16_compress_hook"):
            assert "BF16 all reduce communication hook required CUDA" in text
        return
    ours, theirs = pair.both(cases.hooked, name="bf16_compress_hook")
    equal_on_all_ranks(ours)
    agree(ours, theirs, rtol=2e-2, atol=1e-2)


def test_autocast(pair: Pair) -> None:
    ours, theirs = pair.both(cases.autocast)
    equal_on_all_ranks(ours)
    agree(ours, theirs)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float16", 4e-3), ("bfloat16", 3e-2)])
def test_types_of_parameters(pair: Pair, dtype: str, tolerance: float) -> None:
    ours, theirs = pair.both(cases.whole_in, dtype=dtype)
    equal_on_all_ranks(ours)
    agree(ours, theirs, rtol=tolerance, atol=tolerance / 4)


@pytest.mark.parametrize(
    "case",
    [cases.buffers, cases.sparse_gradient, cases.complex_parameters, cases.in_a_subgroup, cases.two_models_at_once],
    ids=lambda case: case.__name__,
)
def test_same_as_gloo(pair: Pair, case: Any) -> None:
    agree(*pair.both(case))


@pytest.mark.parametrize("case", [cases.mixed_precision, cases.sync_batch_norm], ids=lambda case: case.__name__)
def test_torch_keeps_for_accelerators(pair: Pair, case: Any) -> None:
    """Both are refused by torch itself, whatever the back end; a failure here is the day to test them."""
    ours, theirs = (pair.told(backend, case) for backend in BACKENDS)
    assert ours == theirs and not any("unisono" in text for text in ours), (ours, theirs)

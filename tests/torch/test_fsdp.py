"""FSDP2 and FSDP1 over "unisono": what Gloo and one process compute, to rounding."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch back end needs torch: pip install torch==2.13.0")

import fsdp_cases as cases  # noqa: E402
from backend_pair import Pair, agree  # noqa: E402

pytest_plugins = ["pair_fixtures"]


@pytest.mark.parametrize("reshard_after_forward", [True, False], ids=["reshard", "keep"])
def test_fully_shard(pair: Pair, reshard_after_forward: bool) -> None:
    ours, theirs = pair.both(cases.sharded, reshard_after_forward=reshard_after_forward)
    agree(ours, theirs)
    for result in ours:
        agree(result, cases.alone(pair.size), rtol=1e-4, atol=1e-5)


def test_clipped_gradients(pair: Pair) -> None:
    agree(*pair.both(cases.sharded, clip=0.05, optimizer="SGD"))


@pytest.mark.parametrize(
    ("param_dtype", "reduce_dtype"), [("bfloat16", "float32"), ("bfloat16", "bfloat16"), ("", "float16")]
)
def test_mixed_precision(pair: Pair, param_dtype: str, reduce_dtype: str) -> None:
    ours, theirs = pair.both(cases.sharded, param_dtype=param_dtype, reduce_dtype=reduce_dtype, optimizer="SGD")
    agree(ours, theirs, rtol=0, atol=2e-4 if reduce_dtype != "float32" else 1e-6)
    agree(ours[0], cases.alone(pair.size, optimizer="SGD"), rtol=0, atol=2e-3)


@pytest.mark.parametrize("factor", [1.0, 3.0, "ranks"])
def test_another_divisor_of_gradients(pair: Pair, factor: float | str) -> None:
    """PREMUL_SUM inside torch, which Gloo does not have: compared with one process."""
    divisor = float(pair.size) if isinstance(factor, str) else factor
    for result in pair.run("unisono", cases.sharded, factor=divisor, optimizer="SGD"):
        agree(result, cases.alone(pair.size, divisor, "SGD"), rtol=1e-4, atol=1e-5)


def test_gloo_has_no_other_divisor(pair: Pair) -> None:
    assert all("PREMUL_SUM" in text for text in pair.told("gloo", cases.sharded, factor=3.0))


def test_shards_in_replicas(pair: Pair) -> None:
    """HSDP: a mesh of two dimensions; with two ranks each shard is whole."""
    ours, theirs = pair.both(cases.sharded, replicas=2, optimizer="SGD")
    agree(ours, theirs)
    agree(ours[0], cases.alone(pair.size, optimizer="SGD"), rtol=1e-4, atol=1e-5)


def test_accumulated_gradients(pair: Pair) -> None:
    agree(*pair.both(cases.accumulated))


@pytest.mark.parametrize("strategy", ["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"])
def test_first_generation(pair: Pair, strategy: str) -> None:
    ours, theirs = pair.both(cases.first_generation, strategy=strategy)
    agree(ours, theirs)
    agree(ours[0], cases.alone(pair.size), rtol=1e-4, atol=1e-5)

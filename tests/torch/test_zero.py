"""ZeroRedundancyOptimizer over "unisono": what Gloo and one process compute, to rounding."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the PyTorch back end needs torch: pip install torch==2.13.0")

import fsdp_cases  # noqa: E402
import zero_cases as cases  # noqa: E402
from backend_pair import Pair, agree  # noqa: E402

pytest_plugins = ["pair_fixtures"]


@pytest.mark.parametrize("as_view", [False, True], ids=["copy", "view"])
def test_zero_redundancy(pair: Pair, as_view: bool) -> None:
    ours, theirs = pair.both(cases.zero, as_view=as_view)
    agree(ours, theirs)
    agree(ours[0], fsdp_cases.alone(pair.size), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shard_buckets", [False, True], ids=["whole", "shards"])
def test_zero_overlapped_with_ddp(pair: Pair, shard_buckets: bool) -> None:
    """Torch refuses this on Gloo ("may meet hangs"); the reference is DDP with a plain optimizer."""
    ours = pair.run("unisono", cases.zero_in_the_hook, shard_buckets=shard_buckets)
    np.testing.assert_array_equal(ours[0], ours[1])
    agree(ours, pair.run("gloo", cases.without_a_hook, warm_up=2))


def test_gloo_is_refused_there(pair: Pair) -> None:
    for text in pair.told("gloo", cases.zero_in_the_hook, shard_buckets=False):
        assert "may meet hangs" in text

"""torch.distributed.pipelining over "unisono": the gradients of one process, with each schedule."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch back end needs torch: pip install torch==2.13.0")

import pipelining_cases as cases  # noqa: E402
from backend_pair import Pair, agree  # noqa: E402

pytest_plugins = ["pair_fixtures"]


@pytest.mark.parametrize(
    ("schedule", "per_rank"),
    [
        ("ScheduleGPipe", 1),
        ("Schedule1F1B", 1),
        ("ScheduleInterleaved1F1B", 2),
        pytest.param("ScheduleLoopedBFS", 2, marks=pytest.mark.long),
        pytest.param("ScheduleInterleavedZeroBubble", 2, marks=pytest.mark.long),
    ],
)
def test_gradients_are_those_of_one_process(pair: Pair, schedule: str, per_rank: int) -> None:
    gradients, loss = cases.alone(pair.size * per_rank)
    ours = pair.run("unisono", cases.pipelined, schedule=schedule, per_rank=per_rank)
    for rank, (mine, _) in enumerate(ours):
        agree(mine, gradients[rank :: pair.size])
    assert abs(ours[-1][1] - loss) < 1e-5


def test_beside_data_parallel(pair: Pair) -> None:
    if pair.size < 4:
        pytest.skip("two pipelines of two stages need 4 ranks (make test-long)")
    agree(*pair.both(cases.beside_data_parallel))

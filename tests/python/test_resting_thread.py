"""Others copy from and to this process's memory by way of a thread that sleeps: there is one where somebody may."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import launch

Group = Any


def that_rest(world: Group, algorithm: str | None) -> int:
    from pathlib import Path

    def name_of(thread: Path) -> str:
        try:
            return (thread / "comm").read_text().strip()
        except OSError:  # it has just ended
            return ""

    x, everybodys = np.full(20_000, world.rank, np.float32), np.empty((world.size, 20_000), np.float32)
    for _ in range(100):
        world.all_gather(x, everybodys, algorithm=algorithm)
    assert (everybodys == np.arange(world.size)[:, None]).all()
    return sum(name_of(thread) == "unisono-rests" for thread in Path("/proc/self/task").iterdir())


@pytest.mark.parametrize(
    ("ranks", "algorithm", "environment", "expected"),
    [
        (3, "single_copy", {}, 1),
        (2, None, {"UNISONO_PEER_MEMORY": "0"}, 0),
        (2, None, {"UNISONO_TRANSPORT": "tcp"}, 0),
        (1, None, {}, 0),
    ],
    ids=["there", "refused", "sockets", "alone"],
)
def test_a_thread_rests_where_somebody_may_copy(
    ranks: int, algorithm: str | None, environment: dict[str, str], expected: int
) -> None:
    job = launch(that_rest, ranks, algorithm=algorithm, env=environment)
    assert [outcome.value for outcome in job.outcomes] == ranks * [expected], (job.outcomes, job.output)

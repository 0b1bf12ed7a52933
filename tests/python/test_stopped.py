"""A rank that is stopped amid a collective and continued after the others' error: it writes to nobody's memory."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unisono
from harness import launch

Group = Any


def stopped_amid(world: Group, kind: str, folder: str) -> Any:
    """Rank 2 is stopped in one of its calls, and continued when ranks 0 and 1 use their memory for something else."""
    from harness.stopped import memory, said, say, stop_soon

    whole, x = memory(world, kind)
    pids = [int(p[0]) for p in world.all_gather(np.array([os.getpid()]))]
    whole[:] = 1
    for _ in range(4):
        world.all_reduce(x, "max")
    shared = bool(world.shares(x))
    if world.rank == 2:
        stop_soon()
    try:
        while True:
            world.all_reduce(x, "max", timeout=60.0 if world.rank == 2 else 1.0)
    except unisono.Error:
        pass
    if world.rank == 2:
        say(folder, "continued")
        return None
    x[:] = 9
    say(folder, f"rank{world.rank}")
    if world.rank == 0:
        said(folder, "rank1")
        os.kill(pids[2], signal.SIGCONT)
    said(folder, "continued")
    overwritten = int((x != 9).sum())
    beside = whole.size - x.size - int((whole == 1).sum())
    whole[:] = 5  # to the last byte it is this process's, as ever
    return {
        "shared": shared,
        "overwritten": overwritten,
        "changed beside": beside,
        "lost": int((whole != 5).sum()),
    }


@pytest.mark.parametrize("kind", ["empty", "empty part", "registered", "registered part", "ordinary"])
def test_nothing_is_written_after_the_error(kind: str, tmp_path: Path) -> None:
    job = launch(stopped_amid, 3, kind=kind, folder=str(tmp_path), limit=90)
    for rank in (0, 1):
        assert job.outcomes[rank].value == {
            "shared": True,
            "overwritten": 0,
            "changed beside": 0,
            "lost": 0,
        }, (rank, job.outcomes, job.output)

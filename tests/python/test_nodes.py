"""Ranks on several NUMA nodes, as processes: two of this host's processors stand for two nodes (UNISONO_TOPOLOGY)."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import unisono
from harness import launch

Group = Any

CPUS = sorted(os.sched_getaffinity(0))
# The built-in table takes nodes into account from 16 ranks on; so few ranks as there are processors here are told to.
SETTINGS = {
    "UNISONO_TOPOLOGY": f"numa:2 core:{CPUS[-1]} pu:1",
    "UNISONO_ALGORITHM": ";".join(
        f"{collective}@nodes:0-=staged_nodes"
        for collective in ("all_reduce", "broadcast", "all_gather", "reduce_scatter")
    ),
}

pytestmark = pytest.mark.skipif(len(CPUS) < 2, reason="SKIPPED: one processor cannot stand for two nodes")


def on_nodes(nodes: list[int], cpus: list[int]) -> dict[str, Any]:
    rank = int(os.environ["UNISONO_RANK"])
    if nodes[rank] >= 0:
        os.sched_setaffinity(0, {cpus[nodes[rank]]})
    world = unisono.init()
    n, r = world.size, world.rank
    wrong = []
    for count in (3, 1000, 200_003):
        x = np.arange(count, dtype=np.float64) + r
        whole = world.all_gather(x)
        if not np.array_equal(whole, np.arange(count) + np.arange(n)[:, None]):
            wrong.append(f"all_gather {count}")
        part = np.zeros(count)
        world.reduce_scatter(np.ascontiguousarray(whole).reshape(-1), part)
        if not (part == n * (np.arange(count) + r)).all():
            wrong.append(f"reduce_scatter {count}")
        y = x.copy()
        world.broadcast(y, root=n - 1)
        if not (y == np.arange(count) + n - 1).all():
            wrong.append(f"broadcast {count}")
        world.all_reduce(x)
        if not (x == n * np.arange(count) + n * (n - 1) / 2).all():
            wrong.append(f"all_reduce {count}")
        z = world.empty(count, "float64")
        z[:] = r
        world.all_reduce(z)
        if not (z == n * (n - 1) / 2).all():
            wrong.append(f"all_reduce of shared memory {count}")
    return {"wrong": wrong, "topology": world.topology}


@pytest.mark.parametrize("nodes", [[0, 0, 1, 1], [0, 1, 1, 0, 1]])
def test_collectives_over_two_nodes(nodes: list[int]) -> None:
    job = launch(on_nodes, len(nodes), join=False, env=SETTINGS, nodes=nodes, cpus=[CPUS[0], CPUS[-1]])
    for outcome in job.values():
        assert outcome["wrong"] == []
        assert "\nnodes 0x" in outcome["topology"]
    assert "UNISONO_TOPOLOGY" in job.output, "pretended nodes are said in the log"


def test_a_rank_that_may_run_on_both_is_on_none() -> None:
    settings = {**SETTINGS, "UNISONO_LOG": "info"}
    nodes = [0, 1, -1]
    job = launch(on_nodes, 3, join=False, env=settings, nodes=nodes, cpus=[CPUS[0], CPUS[-1]])
    assert all(outcome["wrong"] == [] for outcome in job.values())
    assert job.output.count("placed on no NUMA node in particular") == 1

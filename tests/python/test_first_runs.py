"""UNISONO_LOG=info says which algorithm runs, once for each kind of call."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from harness import launch

Group = Any
LINE = re.compile(r'rank (\d+): group "(.+?)" \((\d+) over (\w+)\): (.+?): (now )?algorithm (\w+) \((.+)\)$', re.M)
LOG = {"UNISONO_LOG": "info", "UNISONO_SHARE_MEMORY": "0", "UNISONO_PEER_MEMORY": "0"}


def repeated(world: Group) -> None:
    """Each call of another kind, several times."""
    for _ in range(4):
        world.all_reduce(np.ones(2, dtype=np.float32))
        world.all_reduce(np.ones(3, dtype=np.float32))  # as many binary digits: the same kind
        world.all_reduce(np.ones(2, dtype=np.float32), op="max")
        world.all_reduce(np.ones(1 << 18, dtype=np.float64))
        world.broadcast(np.ones(1 << 12, dtype=np.uint8), root=1)
        world.barrier()


def lines(output: str) -> list[tuple[str, ...]]:
    return [match.groups() for match in LINE.finditer(output)]


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_each_kind_is_told_once_by_rank_0(transport: str) -> None:
    job = launch(repeated, 3, env={**LOG, "UNISONO_TRANSPORT": transport})
    job.values()
    told = [line for line in lines(job.output) if "all_gather" not in line[4]]
    assert {line[:4] for line in told} == {("0", "world", "3", transport)}, job.output
    assert [line[4] for line in told] == [
        "all_reduce of 8 bytes, f32 sum",
        "all_reduce of 8 bytes, f32 max",
        "all_reduce of 2M bytes, f64 sum",
        "broadcast of 4K bytes, u8",
        "barrier",
    ], job.output
    algorithm = {line[4]: line[6] for line in told}
    if transport == "shm":
        assert algorithm["all_reduce of 8 bytes, f32 sum"] == algorithm["barrier"] == "inline"
        assert algorithm["all_reduce of 2M bytes, f64 sum"].startswith("staged")
    else:
        assert "inline" not in algorithm.values()
        assert all("rule " in line[7] for line in told), job.output


def test_the_reason_is_told() -> None:
    job = launch(repeated, 2, env={**LOG, "UNISONO_ALGORITHM": "all_reduce:1M-=ring"})
    job.values()
    (ring,) = [line for line in lines(job.output) if line[4] == "all_reduce of 2M bytes, f64 sum"]
    assert ring[6:] == ("ring", "override all_reduce:1M-=ring")


def named(world: Group) -> None:
    for algorithm in (None, "ring", "recursive_doubling", "ring"):
        world.all_reduce(np.ones(1 << 14, dtype=np.float32), algorithm=algorithm)


def test_another_algorithm_of_the_same_kind_is_told_too() -> None:
    job = launch(named, 2, env={**LOG, "UNISONO_TRANSPORT": "tcp", "UNISONO_ALGORITHM": "all_reduce:0-=direct"})
    job.values()
    told = [line[4:] for line in lines(job.output) if "64K" in line[4]]
    kind = "all_reduce of 64K bytes, f32 sum"
    assert told == [
        (kind, None, "direct", "override all_reduce:0-=direct"),
        (kind, "now ", "ring", "the call names it"),
        (kind, "now ", "recursive_doubling", "the call names it"),
    ], job.output


def in_subgroups(world: Group) -> None:
    half = world.split(world.rank % 2)
    for _ in range(2):
        half.all_reduce(np.ones(2))
        half.all_reduce(np.ones(1 << 15), async_op=True).wait()


def test_groups_tell_it_each_for_itself_by_their_own_rank_0() -> None:
    job = launch(in_subgroups, 4, env=LOG)
    job.values()
    told = [line for line in lines(job.output) if line[1] != "world"]
    assert len(told) == 4, job.output
    assert len({line[1] for line in told}) == 2
    assert {(line[0], line[2]) for line in told} == {("0", "2")} or {line[0] for line in told} == {"0", "1"}


def shared(world: Group) -> None:
    private, open_to_all = np.ones(1 << 18), world.empty(1 << 18, "float64")
    open_to_all[:] = 1
    world.all_reduce(private)
    world.all_reduce(open_to_all)


def test_shared_buffers_are_told() -> None:
    job = launch(shared, 2, env=LOG)
    job.values()
    first, second = [line[5:] for line in lines(job.output) if "2M" in line[4]]
    assert first[0] is None and first[1].startswith("staged") and "shared runs once" in first[2]
    assert second[:2] == ("now ", "shared") and "shared memory" in second[2]


@pytest.mark.parametrize("level", ["warn", "error", "off"])
def test_other_levels_say_nothing(level: str) -> None:
    job = launch(repeated, 2, env={**LOG, "UNISONO_LOG": level})
    job.values()
    assert "algorithm" not in job.output

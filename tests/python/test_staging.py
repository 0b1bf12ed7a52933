"""What groups cost in shared memory: the pages that a rank's segment really has, before and after."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pytest
import unisono
from harness import Job, launch, staging

Group = Any
KIB = 1024


def one_after_another(world: Group, sizes: list[int]) -> list[int]:
    """What has come since the world has run, after each group more. Smaller groups have ranks next to each other."""
    staging.talk(world)
    staging.reduce_a_mebibyte(world)
    world.barrier()
    before = staging.committed()
    groups, more = [], []
    for size in sizes:
        groups.append(world.split(world.rank // size))
        if size > 1:
            staging.reduce_a_mebibyte(groups[-1])
        world.barrier()  # all have read what they wanted
        more.append(staging.committed() - before)
    for group in groups:
        group.destroy()
    return more


def values(job: Job) -> list[Any]:
    """Of new processes: in a pool, which has run other tests, ranks may map their peers' segments for writing, too."""
    assert all(outcome.value is not None for outcome in job.outcomes), (job.outcomes, job.output)
    return [outcome.value for outcome in job.outcomes]


def in_all(world: Group) -> int:
    staging.talk(world)
    staging.reduce_a_mebibyte(world)
    return staging.committed()


@pytest.mark.parametrize(("ranks", "mebibytes"), [(2, 8), (8, 16), pytest.param(64, 32, marks=pytest.mark.long)])
def test_what_a_rank_shares_with_rings_to_all_others(ranks: int, mebibytes: int) -> None:
    for bytes_ in values(launch(in_all, ranks)):
        assert bytes_ <= mebibytes * KIB * KIB


@pytest.mark.parametrize("ranks", [2, 8])
def test_a_second_and_a_tenth_group_add_little(ranks: int) -> None:
    for more in values(launch(one_after_another, ranks, sizes=[ranks] * 9)):
        assert more[0] <= 64 * KIB
        assert more[-1] <= 64 * KIB


def test_nor_do_smaller_groups() -> None:
    for more in values(launch(one_after_another, 8, sizes=[2, 4, 8, 1, 4, 2])):
        assert max(more) <= 64 * KIB, more


def at_once(world: Group, count: int) -> tuple[int, int]:
    """What groups that run at once have added while they live, and what is left of it when they are gone."""
    staging.talk(world)
    staging.reduce_a_mebibyte(world)
    world.barrier()
    before = staging.committed()
    groups = [world.split(0) for _ in range(count)]
    x = [np.ones(300_000, np.float32) for _ in groups]
    works = [
        group.all_reduce(y, async_op=True, algorithm="staged_two_shot") for group, y in zip(groups, x, strict=True)
    ]
    for work in works:
        work.wait()
    world.barrier()
    living = staging.committed() - before
    for group in groups:
        group.destroy()
    world.barrier()
    world.split(0).destroy()  # what peers were still reading when its group ended is looked at again
    return living, staging.committed() - before


def test_groups_at_once_take_what_they_need_and_give_it_back() -> None:
    for living, left in values(launch(at_once, 2, count=20)):
        assert living <= 20 * 2048 * KIB + 64 * KIB
        assert left <= 64 * KIB


def small(world: Group) -> tuple[int, int]:
    """What a group has added that sends operands beside its announcements, and what is left of it when it is gone."""
    staging.talk(world)
    world.all_reduce(np.ones(100))
    world.barrier()
    before = staging.committed()
    group = world.split(0)
    group.all_reduce(np.ones(500))
    living = staging.committed() - before
    group.destroy()
    world.barrier()
    world.split(0).destroy()
    return living, staging.committed() - before


def test_small_operands_have_a_few_pages_as_long_as_their_group() -> None:
    for living, left in values(launch(small, 3)):
        assert 4 * KIB <= living <= 64 * KIB
        assert left < living


def death(world: Group) -> int:
    """Rank 2 dies while all use a stage; the others go on without it. What is left of that on each of them."""
    survivors = world.subgroup([0, 1]) if world.rank < 2 else None
    doomed = world.split(0)
    staging.talk(world)
    staging.reduce_a_mebibyte(doomed)
    world.barrier()
    before = staging.committed()
    x = np.ones(1_000_000)
    if world.rank == 2:
        doomed.all_reduce(x, algorithm="staged_two_shot", async_op=True)
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        for _ in range(10**6):
            doomed.all_reduce(x, algorithm="staged_two_shot")
    except unisono.RankFailure:
        doomed.destroy()
    assert survivors is not None
    left = 0
    for _ in range(100):  # until rank 0 and rank 1 have both heard of the death, and left the group
        staging.reduce_a_mebibyte(survivors)
        survivors.split(0).destroy()
        left = staging.committed() - before
        most = np.array([left])
        survivors.all_reduce(most, "max")
        if most[0] <= 65536:
            break
    return left


def test_a_death_leaves_nothing_behind() -> None:
    job = launch(death, 3)
    for rank in (0, 1):
        assert job.outcomes[rank].value is not None, (job.outcomes[rank], job.output)
        assert job.outcomes[rank].value <= 64 * KIB

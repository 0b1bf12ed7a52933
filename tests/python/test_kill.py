"""A rank that is killed: every survivor raises RankFailure within seconds, naming it, whatever it was waiting in."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
import unisono
from harness import launch

Group = Any
WITHIN = 5.0  # seconds


def victim_dies(world: Group, victim: int, case: str) -> dict[str, Any]:
    pids = [int(part[0]) for part in world.all_gather(np.array([os.getpid()]))]
    if case in ("shared", "handed over", "helped"):
        x = world.empty(1_000_000, "float64")  # in memory that the others write to
        x[:] = 0
    else:
        x = np.ones(300_000 if case == "large" else 1000 if case == "small" else 1)
    incoming = world.empty(1_000_000, "float64")
    everything = world.empty(4_000_000, "float64") if case == "helped" and world.rank < 2 else None
    half = world.split(world.rank % 2) if case == "subgroup" else world
    world.barrier()
    start = time.monotonic()
    try:
        for i in range(10**9):
            if i == 20 and world.rank == victim:
                os.kill(os.getpid(), signal.SIGKILL)
            if case == "asynchronous":
                for work in [world.all_reduce(x, async_op=True) for _ in range(5)]:
                    work.wait()
            elif case in ("messages", "asked", "handed over"):
                y = incoming if case == "handed over" else np.zeros(1)
                work = world.irecv(y, src=(world.rank - 1) % world.size)
                world.send(x, dst=(world.rank + 1) % world.size)
                while case == "asked" and not work.done():
                    pass
                work.wait()
            elif case == "helped":  # the root does a part of what the others have to copy
                world.gather(x, everything, root=0)
                world.gather(x, everything, root=1)
            elif case == "barrier":
                world.barrier()
            else:
                half.all_reduce(x)
                if half is not world:
                    world.barrier()
            if i == 20:
                start = time.monotonic()
    except unisono.RankFailure as error:
        took = time.monotonic() - start
        named = error.rank if half is world or error.pid == pids[victim] else -1
        again = None
        try:
            world.barrier()
        except unisono.RankFailure as second:
            again = second.rank
        return {
            "rank": named,
            "pid": error.pid,
            "host": error.host,
            "expected pid": pids[victim],
            "message": str(error),
            "took": took,
            "again": again,
        }
    raise AssertionError("the loop ended")


CASES = (
    *("tiny", "small", "large", "shared", "barrier", "asynchronous", "messages", "asked", "handed over", "helped"),
    "subgroup",
)


@pytest.mark.parametrize("transport", ["", "tcp"], ids=["shm", "tcp"])
@pytest.mark.parametrize("case", CASES)
def test_survivors_name_the_rank_that_was_killed(transport: str, case: str) -> None:
    victim, ranks = 2, 4
    env = {"UNISONO_TRANSPORT": transport} if transport else {}
    job = launch(victim_dies, ranks, victim=victim, case=case, env=env, limit=60)
    assert job.outcomes[victim].missing
    assert job.status != 0
    for rank in range(ranks):
        if rank == victim:
            continue
        outcome = job.outcomes[rank]
        assert outcome.failure is None and not outcome.missing, (outcome, job.output)
        report = outcome.value
        assert report["pid"] == report["expected pid"], report
        assert str(report["pid"]) in report["message"] and report["host"] in report["message"], report
        assert report["took"] < WITHIN, report
        assert f"; on rank {rank} of {ranks} (" in report["message"] or case == "subgroup", report  # and in which call
        if case != "subgroup":
            assert report["rank"] == victim and report["again"] == victim, report
            assert f"rank {victim}" in report["message"], report


def first_dies(world: Group) -> int:
    # Rank 0 serves the store: its end must not hide what ended.
    world.barrier()
    if world.rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        world.all_reduce(np.zeros(10))
    except unisono.RankFailure as error:
        return error.rank
    return -1


@pytest.mark.parametrize("through", ["run", "tcp"])
def test_rank_0_is_killed(through: str) -> None:
    job = launch(first_dies, 3, through=through)
    assert [outcome.value for outcome in job.outcomes[1:]] == [0, 0], job.output


def dies_instead_of_making_a_group(world: Group) -> list[Any]:
    world.barrier()
    if world.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    try:
        world.subgroup([0, 1] if world.rank == 0 else [3, 2])  # the one misses a member, the other can be made
        made = ""
    except unisono.RankFailure as error:
        made = f"{error.rank}: {error}"
    return [made, time.monotonic() - start]


@pytest.mark.parametrize("transport", ["", "tcp"], ids=["shm", "tcp"])
def test_a_member_of_a_group_that_is_made_is_killed(transport: str) -> None:
    env = {"UNISONO_TRANSPORT": transport} if transport else {}
    job = launch(dies_instead_of_making_a_group, 4, env=env, limit=60)
    made, took = job.outcomes[0].value
    assert made.startswith("1: ") and "world/{0,1}" in made and "died" in made, made
    assert all(job.outcomes[rank].value[1] < WITHIN for rank in (0, 2, 3)), took


def two_die(world: Group) -> list[Any]:
    try:
        world.barrier()
        if world.rank in (1, 3):
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            world.all_reduce(np.zeros(100_000))
    except unisono.RankFailure as error:
        return [error.rank, error.pid]


@pytest.mark.parametrize("transport", ["", "tcp"], ids=["shm", "tcp"])
def test_two_ranks_are_killed(transport: str) -> None:
    job = launch(two_die, 4, env={"UNISONO_TRANSPORT": transport} if transport else {})
    for rank in (0, 2):
        assert job.outcomes[rank].value is not None, (job.outcomes[rank], job.output)
        assert job.outcomes[rank].value[0] in (1, 3), job.output


def dies_amid(world: Group, victim: int, shared: bool) -> list[Any]:
    x = world.empty(16_000_000, np.float32) if shared else np.empty(16_000_000, np.float32)
    x[:] = 0
    world.all_reduce(x)  # the first one alone: the kill below falls into a later one, wherever it is by then
    if world.rank == victim:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGKILL)).start()
    start = time.monotonic()
    try:
        while True:
            world.all_reduce(x)
    except unisono.RankFailure as error:
        return [error.rank, str(error), time.monotonic() - start]


@pytest.mark.parametrize("algorithm", ["single_copy", "shared"])
def test_a_rank_dies_while_others_read_its_memory_or_do_its_work(algorithm: str) -> None:
    env = {"UNISONO_ALGORITHM": "all_reduce:0-=single_copy"} if algorithm == "single_copy" else {}
    # It may die just before the others know where its buffer lies, and with that the algorithm: then once more.
    for _ in range(3):
        messages = []
        job = launch(dies_amid, 3, victim=1, shared=algorithm == "shared", env=env)
        for rank in (0, 2):
            assert job.outcomes[rank].value is not None, (job.outcomes, job.output)
            named, message, took = job.outcomes[rank].value
            assert named == 1, (message, job.output)
            assert took < WITHIN, message
            messages.append(message)
        if all(algorithm in message for message in messages):
            return
    raise AssertionError(messages)


def dies_among_pairs(world: Group, victim: int) -> list[Any]:
    x = np.full(world.size * 4096, world.rank, np.float32)
    y = np.empty_like(x)
    world.all_to_all(x, y)
    if world.rank == victim:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGKILL)).start()
    start = time.monotonic()
    try:
        while True:
            world.all_to_all(x, y)
    except unisono.RankFailure as error:
        return [error.rank, str(error), time.monotonic() - start]


@pytest.mark.parametrize("victim", [1, 2, 4])
def test_a_rank_dies_while_pairs_read_for_each_other(victim: int) -> None:
    """The last one is in no pair."""
    job = launch(dies_among_pairs, 5, victim=victim, env={"UNISONO_ALGORITHM": "all_to_all:0-=single_copy_pairs"})
    for rank in set(range(5)) - {victim}:
        assert job.outcomes[rank].value is not None, (job.outcomes, job.output)
        named, message, took = job.outcomes[rank].value
        assert named == victim, (message, job.output)
        assert took < WITHIN, message
        assert "single_copy_pairs" in message, message

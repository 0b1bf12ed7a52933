"""unisono.distributed when something goes wrong: which rank, in which call; and nothing hangs."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import numpy as np
import unisono
from harness.launch import launch


def a_rank_dies() -> dict[str, Any]:
    import unisono.distributed as dist

    dist.init_process_group()
    rank = dist.get_rank()
    x = np.ones(1000)
    dist.all_reduce(x)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    try:
        dist.all_reduce(x)
    except dist.DistBackendError as error:
        return {"kind": type(error).__name__, "text": str(error), "seconds": time.monotonic() - begin}
    return {}


def test_a_rank_that_dies() -> None:
    job = launch(a_rank_dies, 3, join=False)
    for rank in (0, 2):
        value = job.outcomes[rank].value
        assert value["kind"] == "RankFailure" and "rank 1" in value["text"], value
        assert "all_reduce" in value["text"] and value["seconds"] < 20, value


def different_calls() -> str:
    import unisono.distributed as dist

    dist.init_process_group()
    x = np.ones(1000)
    work = dist.all_reduce(x, async_op=True) if dist.get_rank() else dist.broadcast(x, 0, async_op=True)
    try:
        work.wait()
    except dist.DistError as error:
        assert work.is_completed() and not work.is_success() and type(work.exception()) is type(error)
        failed = work.get_future()
        try:
            failed.wait()
        except dist.DistError:
            return f"{type(error).__name__}: {error}"
    return "nothing"


def test_different_calls() -> None:
    for text in launch(different_calls, 2, join=False).values():
        assert text.startswith("Mismatch: ") and "broadcast" in text and "all_reduce" in text, text


def too_late() -> list[str]:
    from datetime import timedelta

    import unisono.distributed as dist

    dist.init_process_group()
    rank = dist.get_rank()
    texts = []
    pair = dist.new_group([0, 1], timeout=timedelta(milliseconds=1500))
    if rank == 0:
        work: Any = dist.irecv(np.zeros(1), src=1, group=pair)
        try:
            work.wait(timedelta(milliseconds=50))
        except dist.DistBackendError as error:
            texts.append(f"{type(error).__name__}: {error}")
        try:
            work.wait()
        except dist.DistBackendError as error:
            texts.append(f"{type(error).__name__}: {error}")
    dist.barrier()
    if rank != 2:  # rank 2 does not come
        try:
            dist.monitored_barrier(timeout=timedelta(milliseconds=500), wait_all_ranks=True)
        except dist.DistBackendError as error:
            texts.append(f"{type(error).__name__}: {error}")
            assert rank or vars(error)["missing"] == [2]
    # Nobody leaves before, and the group goes on.
    dist.barrier()
    return texts


def test_time_outs() -> None:
    zero, one, _ = launch(too_late, 3, join=False).values()
    assert "It goes on: wait again" in zero[0] and zero[1].startswith("Timeout: ") and "rank 1" in zero[1], zero
    assert zero[2].startswith("Timeout: Rank 2 failed to pass monitoredBarrier in 500 ms"), zero
    assert one[0].startswith("Timeout: Rank 1 successfully reached monitoredBarrier, but received errors"), one


def after_destroy() -> str:
    import unisono.distributed as dist

    dist.init_process_group()
    group = dist.new_group()
    dist.barrier(group)
    dist.destroy_process_group()
    try:
        dist.all_reduce(np.ones(1), group=group)
    except ValueError as error:
        text = str(error)
    child = os.fork()
    if child == 0:
        os._exit(int(dist.is_initialized()))
    assert os.waitpid(child, 0)[1] == 0
    dist.init_process_group()
    child = os.fork()
    if child == 0:  # the parent's world is not the child's
        os._exit(int(dist.is_initialized()))
    assert os.waitpid(child, 0)[1] == 0
    dist.barrier()
    dist.destroy_process_group()
    world = unisono.init()  # one world, by either name
    dist.init_process_group()
    pg = dist.group.WORLD
    assert pg is not None and pg.core is world
    dist.barrier()
    try:
        unisono.init()
    except ValueError as error:
        assert "has joined a world already" in str(error)
    return text


def test_a_group_after_destroy() -> None:
    for text in launch(after_destroy, 2, join=False).values():
        assert "destroy" in text, text

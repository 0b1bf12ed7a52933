"""Group.empty: arrays in memory that all ranks of a host reach."""

from __future__ import annotations

import gc
import os
import signal
import threading
from typing import Any

import numpy as np
import pytest
import unisono
from harness import Pools, launch

Group = Any


def all_collectives(world: Group) -> None:
    n, r = world.size, world.rank
    x = world.empty((3, 7000), "float64")
    x[:] = r + 1
    world.all_reduce(x, algorithm="shared")
    assert (x == n * (n + 1) / 2).all()
    bucket = world.empty(30_000, np.int64)
    bucket[:] = r
    view = bucket[11:20_011]  # a view into a bucket is as good
    world.all_reduce(view, "max", algorithm="shared")
    assert (view == n - 1).all()
    assert (bucket[:11] == r).all()
    assert (bucket[20_011:] == r).all()
    out = world.empty(n * 5000, "float32")
    part = world.empty(5000, "float32")
    part[:] = r
    world.all_gather(part, out, algorithm="shared")
    assert (out.reshape(n, 5000) == np.arange(n)[:, None]).all()
    world.reduce_scatter(out, part, algorithm="shared")
    assert (part == n * r).all()


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_collectives_copy_nothing(pools: Pools, ranks: int) -> None:
    pools(ranks).run(all_collectives)


def some_ranks(world: Group) -> None:
    x = world.empty(50_000) if world.rank == 1 else np.empty(50_000, np.float32)
    x[:] = 1
    world.all_reduce(x)
    assert (x == world.size).all()
    if world.rank != 1:
        try:
            world.all_reduce(x, algorithm="shared")
        except unisono.InvalidArgument as error:
            assert "Group::allocate" in str(error)
        else:
            raise AssertionError("it ran on ordinary memory")


def test_ranks_that_use_ordinary_memory(pools: Pools) -> None:
    pools(3).run(some_ranks)


def ordinary(world: Group) -> None:
    x = world.empty((2, 10_000), "int32")
    x[:] = world.rank
    world.all_reduce(x)
    assert (x == sum(range(world.size))).all()


def test_without_shared_memory_it_is_an_ordinary_array(pools: Pools) -> None:
    pools(3, "tcp").run(ordinary)


def test_shapes_and_types() -> None:
    def body(world: Group) -> None:
        assert world.empty(4).dtype == np.float32
        assert world.empty((), "int8").shape == ()
        assert world.empty([2, 0, 3], bool).size == 0
        assert world.empty(np.int64(3), np.dtype("complex64")).shape == (3,)
        x = world.empty((100, 100))
        assert x.flags.c_contiguous
        assert x.flags.writeable
        assert x.ctypes.data % 4096 == 0
        with pytest.raises(unisono.InvalidArgument, match="negative"):
            world.empty(-1)
        with pytest.raises(unisono.InvalidArgument, match="Python objects"):
            world.empty(3, object)
        with pytest.raises(unisono.InvalidArgument, match="overflow"):
            world.empty((1 << 40, 1 << 40))
        with pytest.raises(unisono.SystemError):
            world.empty(1 << 60, "int8")

    unisono.spawn_threads(1, body)


def test_the_array_outlives_the_group() -> None:
    rows = unisono.spawn_threads(2, lambda world: world.empty(1 << 20)[5:])
    gc.collect()
    for row in rows:
        row[:] = 3
        assert row.sum() == 3 * ((1 << 20) - 5)


def fork_and_free(world: Group) -> None:
    x = world.empty(1 << 20)
    x[:] = 1
    child = os.fork()
    if child == 0:
        del x  # is not the child's to give back
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert (x == 1).all()
    world.all_reduce(x, algorithm="shared")
    assert (x == world.size).all()


def test_a_forked_child_leaves_the_memory_alone() -> None:
    job = launch(fork_and_free, 2, limit=60)
    assert job.status == 0, job.output


def stopped_rank(world: Group) -> dict[str, Any]:
    pids = [int(p[0]) for p in world.all_gather(np.array([os.getpid()]))]
    x = world.empty(1 << 20)
    x[:] = 0
    world.barrier()
    if world.rank == 2:
        timer = threading.Timer(4.0, os.kill, (pids[1], signal.SIGCONT))
        timer.start()
    try:
        for i in range(10**9):
            if world.rank == 1 and i == 10:
                os.kill(os.getpid(), signal.SIGSTOP)
            world.all_reduce(x, timeout=1.0)
    except unisono.Timeout as error:
        return {"missing": error.missing}
    raise AssertionError("the loop ended")


def test_a_stopped_rank_is_a_timeout() -> None:
    job = launch(stopped_rank, 3, limit=60)
    for rank in (0, 2):
        outcome = job.outcomes[rank]
        assert outcome.failure is None, (outcome, job.output)
        assert outcome.value["missing"] == [1]

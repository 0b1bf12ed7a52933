"""Group.register: a program's own arrays as memory that all ranks of a host reach."""

from __future__ import annotations

import array
import gc
import mmap
import os
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np
import pytest
import unisono
from harness import Pools, launch
from harness.memory import is_shared

Group = Any


def all_collectives(world: Group) -> None:
    n, r = world.size, world.rank
    x = np.full((3, 7000), r + 1.0)
    try:
        world.all_reduce(x, algorithm="shared")
    except unisono.InvalidArgument as error:
        assert "registered" in str(error)
    else:
        raise AssertionError("it ran on ordinary memory")
    with world.register(x) as registration:
        assert registration.shared
        assert registration.nbytes == x.nbytes
        world.all_reduce(x, algorithm="shared")
        assert (x == n * (n + 1) / 2).all()
    assert not registration.shared
    assert (x == n * (n + 1) / 2).all()
    registration.release()  # a second time
    bucket = np.full(300_000, r)
    out, part = np.empty(n * 5000, np.float32), np.full(5000, r, np.float32)
    for a in (bucket, out, part):
        world.register(a)  # nobody keeps what it returns: the group does
    view = bucket[11:20_011]  # a view into a bucket is as good
    world.all_reduce(view, "max", algorithm="shared")
    assert (view == n - 1).all()
    assert (bucket[:11] == r).all()
    assert (bucket[20_011:] == r).all()
    world.all_gather(part, out, algorithm="shared")
    assert (out.reshape(n, 5000) == np.arange(n)[:, None]).all()
    world.reduce_scatter(out, part, algorithm="shared")
    assert (part == n * r).all()


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_collectives_copy_nothing(pools: Pools, ranks: int) -> None:
    pools(ranks).run(all_collectives)


def some_ranks(world: Group) -> None:
    for registers in range(8):
        x = np.full(60_000, 1.0, np.float32)
        registration = world.register(x) if registers >> world.rank & 1 else None
        world.all_reduce(x)
        assert (x == world.size).all()
        if registration is not None:
            registration.release()


def test_ranks_that_do_not_register(pools: Pools) -> None:
    pools(3).run(some_ranks)


def without_shared_memory(world: Group) -> None:
    x = np.full(60_000, 1.0)
    with world.register(x) as registration:
        assert not registration.shared
        world.all_reduce(x)
    assert (x == world.size).all()


def test_without_shared_memory_nothing_happens(pools: Pools) -> None:
    pools(2, "tcp").run(without_shared_memory)


def test_what_can_be_registered() -> None:
    def body(world: Group) -> None:
        for ordinary in (
            np.ones(40_000),
            bytearray(100_000),
            array.array("d", [1.0]) * 30_000,
            memoryview(bytearray(50_000)),
        ):
            with world.register(ordinary) as registration:
                assert registration.shared, type(ordinary)
                assert "shared" in repr(registration)
            assert "released" in repr(registration)
        assert not world.register(np.ones(3)).shared  # covers no page
        assert world.register(world.empty(10_000)).shared  # is shared as it is
        matrix = np.ones((500, 500))
        with pytest.raises(unisono.InvalidArgument, match="not contiguous"):
            world.register(matrix[:, ::2])
        with pytest.raises(unisono.InvalidArgument, match="read-only"):
            world.register(bytes(100_000))
        with pytest.raises(unisono.InvalidArgument, match="None"):
            world.register(None)
        with world.register(matrix), pytest.raises(unisono.InvalidArgument, match="already"):
            world.register(matrix)
        with mmap.mmap(-1, 100_000) as shared, pytest.raises(unisono.InvalidArgument, match="shared memory already"):
            world.register(shared)
        with tempfile.TemporaryFile() as file:
            file.truncate(100_000)
            with (
                mmap.mmap(file.fileno(), 100_000, mmap.MAP_PRIVATE) as mapped,
                pytest.raises(unisono.InvalidArgument, match="belongs to a file"),
            ):
                world.register(mapped)

    unisono.spawn_threads(1, body)


def test_it_lasts_until_the_group_is_destroyed() -> None:
    x = np.full(50_000, 3.0)

    def body(world: Group) -> Any:
        registration = world.register(x)
        with pytest.raises(ValueError, match="referenced"):
            x.resize(10, refcheck=True)  # its memory cannot go
        world.destroy()
        with pytest.raises(unisono.InvalidArgument, match="destroyed"):
            world.register(x)
        return registration

    (registration,) = unisono.spawn_threads(1, body)
    assert not registration.shared
    assert (x == 3).all()
    assert not is_shared(x)


def test_an_array_that_nobody_holds_stays(pools: Pools) -> None:
    pools(2).run(dropped)


def dropped(world: Group) -> None:
    x = np.full(500_000, 1.0)
    registration = world.register(x)
    part = x[1000:300_000]
    del x
    gc.collect()
    world.all_reduce(part, algorithm="shared")
    assert (part == world.size).all()
    registration.release()
    assert (part == world.size).all()


# --- forks: a child has a copy of its own, whoever makes it


def forks(world: Group) -> None:
    from harness.forked import beside_a_child
    from harness.memory import is_shared

    x = np.full(700_000, 1.0)
    world.register(x)
    assert is_shared(x)

    def child(wait: Any) -> int:
        assert not is_shared(x)
        wait()  # the parent has reduced meanwhile, and so have its peers
        assert (x == 1).all()
        x[:] = -1
        try:
            world.register(x)
        except unisono.InvalidArgument as error:
            return 0 if "parent" in str(error) else 2
        return 1

    def parent() -> None:
        for _ in range(5):
            world.all_reduce(x, algorithm="shared")

    assert beside_a_child(child, parent) == 0
    assert (x == world.size**5).all()
    world.all_reduce(x, "max", algorithm="shared")
    assert (x == world.size**5).all()


def test_the_child_of_a_fork_has_its_own_copy() -> None:
    job = launch(forks, 3, limit=60)
    assert job.status == 0, job.output


def many_children(world: Group) -> None:
    import multiprocessing

    def child_sum(results: Any) -> None:
        before = float(x.sum())
        x[:] = 9
        results.put(before)

    x = np.full(300_000, world.rank + 1.0)
    world.register(x)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    children = [context.Process(target=child_sum, args=(results,)) for _ in range(3)]
    for c in children:
        c.start()
        subprocess.run([sys.executable, "-c", ""], check=True)
        subprocess.run(["true"], check=True, preexec_fn=lambda: None)  # by fork, not vfork
    for c in children:
        c.join()
    assert [results.get(timeout=10) for _ in children] == [300_000.0 * (world.rank + 1)] * 3
    world.all_reduce(x, algorithm="shared")
    assert (x == sum(range(1, world.size + 1))).all()


def test_children_of_multiprocessing_and_subprocess() -> None:
    job = launch(many_children, 2, limit=60)
    assert job.status == 0, job.output


def forks_while_peers_write(world: Group) -> None:
    from harness.memory import is_shared

    x, still = np.zeros(400_000), np.full(400_000, 5.0)
    world.register(x)
    world.register(still)
    for _ in range(6):
        work = world.all_reduce(x, async_op=True)
        child = os.fork()
        if child == 0:
            os._exit(0 if (still == 5).all() and not is_shared(still) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        work.wait()
        assert (x == 0).all()


def test_forks_amid_operations() -> None:
    job = launch(forks_while_peers_write, 2, limit=60)
    assert job.status == 0, job.output


def leaves_with_it(world: Group) -> None:
    world.register(np.ones(1_000_000))
    world.barrier()


def test_a_process_may_end_with_arrays_registered() -> None:
    job = launch(leaves_with_it, 2, limit=60)
    assert job.status == 0, job.output
    assert "error" not in job.output.lower(), job.output

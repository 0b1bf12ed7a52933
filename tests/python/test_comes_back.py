"""Ordinary arrays that collectives come back to: when their memory is shared, and that only the time shows it."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import pytest
import unisono
from harness import launch

Group = Any

# Every function is a program of its own. 40 MiB are more than malloc ever takes from its heap.


def comes_back(world: Group) -> list[bool]:
    from harness.memory import is_shared

    x = np.empty(10 << 20, np.float32)
    place, view, shared = x.ctypes.data, x[7:1000], []
    ramp = (np.arange(x.size) % 5).astype(np.float32)
    for _ in range(5):
        x[:] = ramp
        world.all_reduce(x)
        assert (x == world.size * ramp).all()
        assert world.shares(x) == is_shared(x)
        shared.append(is_shared(x))
    x[:] = 3
    assert x.ctypes.data == place
    assert (view == 3).all()
    world.destroy()
    x += 1  # it is the program's as ever, and stays right
    assert (x == 4).all()
    assert (view == 4).all()
    return shared


def test_it_is_shared_when_that_pays() -> None:
    assert launch(comes_back, 2).values() == [[False, False, False, True, True]] * 2


def test_not_where_it_is_switched_off_or_useless() -> None:
    for env in ({"UNISONO_SHARE_MEMORY": "0"}, {"UNISONO_TRANSPORT": "tcp"}):
        assert launch(comes_back, 2, env=env).values() == [[False] * 5] * 2, env


def test_not_where_it_may_lie_on_several_numa_nodes() -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("with one processor there is no second node")
    nodes = {"UNISONO_TOPOLOGY": f"numa:2 core:{cpus[-1]} pu:1", "UNISONO_LOG": "info"}
    job = launch(comes_back, 2, env=nodes)
    assert job.values() == [[False] * 5] * 2
    assert "are not all on one node" in job.output


def every_collective(world: Group, names: list[str]) -> dict[str, list[bool]]:
    n, r, shared = world.size, world.rank, {}
    a_page = (..., slice(None, None, 1021))  # comparing all elements would take longer than all that is tested
    part = (10 << 20) // n // 1024 * 1024
    for name in names:
        one, all_of_them = np.zeros(part, np.float32), np.zeros((n, part), np.float32)
        other = np.zeros((n, part), np.float32)
        ranks = np.arange(n, dtype=np.float32)[:, None]
        for use in range(4 * n + 18):  # what paid for being shared may be followed by something else at its place
            one[:] = r + use
            if name == "all_gather":
                world.all_gather(one, all_of_them)
                assert (all_of_them[a_page] == ranks + use).all()
            elif name == "in place":
                all_of_them[:] = -1
                all_of_them[r] = r + use
                world.all_gather(all_of_them[r], all_of_them)
                assert (all_of_them[a_page] == ranks + use).all()
            elif name == "reduce_scatter":
                all_of_them[:] = ranks + use
                world.reduce_scatter(all_of_them, one)
                assert (one[a_page] == n * (r + use)).all()
            elif name == "all_to_all":
                all_of_them[:] = ranks + 10 * r + use
                world.all_to_all(all_of_them, other)
                assert (other[a_page] == 10 * ranks + r + use).all()
            elif name == "broadcast":
                all_of_them[:] = r + use
                world.broadcast(all_of_them, 1)
                assert (all_of_them[a_page] == 1 + use).all()
            elif name == "reduce":
                all_of_them[:] = r + use
                world.reduce(all_of_them, 1, out=other if r == 1 else None)
                assert r != 1 or (other[a_page] == n * (n - 1) // 2 + n * use).all()
                assert (all_of_them[a_page] == r + use).all()
            elif name == "gather":
                world.gather(one, all_of_them if r == 1 else None, root=1)
                assert r != 1 or (all_of_them[a_page] == ranks + use).all()
            else:
                all_of_them[:] = ranks + use
                world.scatter(all_of_them if r == 1 else None, one, root=1)
                assert (one[a_page] == r + use).all()
        shared[name] = [world.shares(a) for a in (one, all_of_them, other)]
    return shared


def messages(world: Group) -> dict[str, list[bool]]:
    n, r, shared = world.size, world.rank, {}
    for name in ("send", "isend", "any"):
        x, y = np.zeros(10 << 20, np.float32), np.zeros(10 << 20, np.float32)
        ramp = (np.arange(x.size) % 7).astype(np.float32)
        for use in range(5):
            np.add(ramp, r + use, out=x)
            right, left = (r + 1) % n, (r - 1) % n
            work = world.irecv(y, src=-1 if name == "any" else left)
            if name == "send":
                world.send(x, dst=right)
            else:
                world.isend(x, dst=right).wait()
            work.wait()
            assert work.received().source == left
            assert (y - ramp == left + use).all(), (name, use)
        shared[name] = [world.shares(x), world.shares(y)]
    return shared


def test_messages_share_it_too() -> None:
    for got in launch(messages, 3).values():
        assert all(got["send"]), got
        assert sum(map(sum, got.values())) >= 4, (
            got
        )  # what was tried at a place and soon freed has to come back more often


@pytest.mark.parametrize(
    "names",
    [
        ["all_gather", "reduce", "gather"],
        pytest.param(["in place", "reduce_scatter", "all_to_all", "broadcast", "scatter"], marks=pytest.mark.long),
    ],
    ids=["some", "others"],
)
def test_what_others_reach_is_shared(names: list[str]) -> None:
    for rank, got in enumerate(launch(every_collective, 3, limit=150, names=names).values()):
        for name, shared in got.items():
            if name == "reduce":
                assert shared == [False, True, False] or rank == 1, rank
            elif name in ("gather", "scatter"):
                assert shared[1] == (rank == 1), (name, rank)
            else:
                assert shared[0 if name == "all_gather" else 1], (name, rank)


def stays_private(world: Group) -> None:
    whole = np.zeros(12 << 20, np.float32)
    for array in (np.zeros(1000), whole[: 8 << 20], whole[1 << 20 :]):
        for _ in range(30):
            array[:] = 1
            world.all_reduce(array)
            assert (array == world.size).all()
        assert not world.shares(array)


def test_a_part_and_a_small_array_stay_private() -> None:
    launch(stays_private, 2).values()


def is_freed(world: Group) -> None:
    """New arrays at old places are not taken for the old ones, whichever way the old ones went."""
    used = set()
    for use in range(12):
        x = np.empty(10 << 20, np.float32)
        used.add(x.ctypes.data)
        for again in range(5 if use < 6 else 1):
            x[:] = use + again
            world.all_reduce(x)
            assert (x == world.size * (use + again)).all()
        if use == 2:
            x.resize(25 << 20, refcheck=False)  # realloc: there is no room behind it
            assert (x[: 10 << 20] == world.size * (use + 4)).all()
        elif use == 4:
            x.resize(5 << 20, refcheck=False)  # realloc: the rest is unmapped
            assert (x == world.size * (use + 4)).all()
            for again in range(20):
                x[:] = again
                world.all_reduce(x)
                assert (x == world.size * again).all()
        del x
    assert len(used) < 12  # a place was used again
    world.barrier()


def test_what_is_freed_is_forgotten() -> None:
    job = launch(is_freed, 2, env={"UNISONO_LOG": "info"})
    job.values()
    assert "they are shared with the ranks of this host now" in job.output
    assert "was registered, but has been freed" not in job.output  # nobody has registered anything


def new_ones_each_time(world: Group) -> int:
    """How often in 40 calls the memory of arrays was shared that live for one call each, at the same place."""
    times = 0
    for _ in range(40):
        x = np.ones(10 << 20, np.float32)
        world.all_reduce(x)
        assert (x == world.size).all()
        times += world.shares(x)
        del x
    return times


def test_arrays_that_do_not_come_back_cost_little() -> None:
    assert max(launch(new_ones_each_time, 2).values()) <= 2


def forked(world: Group) -> None:
    from harness.forked import beside_a_child
    from harness.memory import is_shared

    x = np.ones(10 << 20, np.float32)
    for _ in range(4):
        world.all_reduce(x)
    assert is_shared(x)

    def child(wait: Any) -> int:
        wait()  # parent and peers have written meanwhile
        assert not is_shared(x)
        assert (x == world.size**4).all()
        x[:] = -1
        return 0

    assert beside_a_child(child, lambda: world.all_reduce(x)) == 0
    assert (x == world.size**5).all()
    assert not is_shared(x)  # who forks shares nothing by itself any more
    for _ in range(6):
        world.all_reduce(x, "max")
        assert not is_shared(x)
    assert (x == world.size**5).all()


def test_a_forked_child_has_its_own() -> None:
    job = launch(forked, 2)
    job.values()


def registers_what_is_shared(world: Group) -> None:
    x = np.ones(10 << 20, np.float32)
    for _ in range(4):
        world.all_reduce(x, "max")
    assert world.shares(x)
    with world.register(x[1 << 20 : 2 << 20]) as part:  # it is so already
        assert part.shared
        world.all_reduce(x, "max")
    assert world.shares(x)
    with world.register(x) as whole:
        assert whole.shared
        world.all_reduce(x, "max", algorithm="shared")
        try:
            world.register(x)
        except unisono.InvalidArgument as error:
            assert "already" in str(error)
        else:
            raise AssertionError("it is registered twice")
    assert not world.shares(x)
    world.all_reduce(x, "max")
    assert (x == 1).all()


def test_it_can_be_registered() -> None:
    job = launch(registers_what_is_shared, 2)
    job.values()


def another_world(world: Group) -> list[bool]:
    """Memory that one context shared is used with the next one, and freed after it."""
    from harness.memory import is_shared

    x = np.ones(10 << 20, np.float32)
    for _ in range(4):
        world.all_reduce(x, "max")
    assert is_shared(x)
    world.destroy()
    del world
    shared = is_shared(x)

    def body(alone: Any) -> None:
        for _ in range(5):
            x[:] = 2
            alone.all_reduce(x)
            assert (x == 2).all()

    unisono.spawn_threads(1, body)
    return [shared, bool((x == 2).all())]


def test_it_outlives_its_world() -> None:
    assert [result[1] for result in launch(another_world, 2).values()] == [True, True]


def with_a_device(world: Group) -> bool:
    """A process that has a device open, which may have been told where its pages are."""
    import stat
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/device"
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(10, 200))
        device = os.open(path, os.O_PATH)
    x = np.ones(10 << 20, np.float32)
    for _ in range(6):
        world.all_reduce(x, "max")
    os.close(device)
    return bool(world.shares(x))


def test_not_in_a_process_that_has_a_device() -> None:
    if os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("only root can make a device's file")
    job = launch(with_a_device, 2, env={"UNISONO_LOG": "info"})
    assert job.values() == [False, False]
    assert "has a device open" in job.output


def stopped_amid(world: Group) -> list[bool] | None:
    """Rank 1 is stopped amid an operation that rank 2 never begins: it may go on with it long after it has failed."""
    import signal
    import threading

    x, word = np.zeros(10 << 20, np.float32), np.zeros(1)
    pids = [int(p[0]) for p in world.all_gather(np.array([os.getpid()]))]
    for _ in range(4):
        world.all_reduce(x)
    before = world.shares(x)
    if world.rank == 1:
        number = world.sequence_number
        world.all_reduce(x, async_op=True, timeout=2.0)
        while world.sequence_number == number:
            pass
        world.send(word, 0)
        world.send(word, 2)
        os.kill(os.getpid(), signal.SIGSTOP)
        return None
    world.recv(word, 1)
    if world.rank == 2:
        threading.Timer(4.0, os.kill, (pids[1], signal.SIGCONT)).start()
        return None
    try:
        world.all_reduce(x, timeout=1.0)
    except unisono.Error:
        return [before, bool(world.shares(x))]
    raise AssertionError("it came to an end")


def test_who_was_stopped_writes_to_nobody() -> None:
    job = launch(stopped_amid, 3)
    assert job.outcomes[0].value == [True, False], (job.outcomes, job.output)


def message_stopped_amid(world: Group) -> list[Any] | None:
    """Rank 1 is stopped while large messages go to and fro: rank 0 has its memory back when that fails."""
    import signal
    import threading
    import time

    x, word = np.zeros(20 << 20, np.float32), np.zeros(1)
    pids = [int(p[0]) for p in world.all_gather(np.array([os.getpid()]))]
    if world.rank == 2:
        world.recv(word, 1)
        time.sleep(0.05)  # somewhere amid
        os.kill(pids[1], signal.SIGSTOP)
        threading.Timer(4.0, os.kill, (pids[1], signal.SIGCONT)).start()
        return None
    for use in range(5):
        world.send(x, 1 - world.rank) if (world.rank + use) % 2 == 0 else world.recv(x, 1 - world.rank)
    before = world.shares(x)
    if world.rank == 1:
        world.send(word, 2)
    start = time.monotonic()
    try:
        while True:
            x[:100] = 3
            world.send(x, 1, timeout=1.0) if world.rank == 0 else world.recv(x, 0, timeout=20.0)
            world.recv(x, 1, timeout=1.0) if world.rank == 0 else world.send(x, 0, timeout=20.0)
    except unisono.Error:
        took = time.monotonic() - start
        x[:] = 9
        time.sleep(5.0)  # the other one goes on
        return [before, took < 4, bool((x == 9).all())]


def test_a_message_whose_peer_was_stopped() -> None:
    job = launch(message_stopped_amid, 3)
    assert job.outcomes[0].value == [True, True, True], (job.outcomes, job.output)

"""A rank destroys a group while others still call on it: they hear it at once. In order, nobody hears anything."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unisono
from harness import Pools
from harness.launch import environment, unisono_command

Group = Any
worlds = pytest.mark.parametrize(
    ("ranks", "transport"), [(3, ""), (4, "tcp"), (6, "tcp")], ids=lambda value: str(value) or "shm"
)


def hearing(world: Group) -> list[Any]:
    """What ranks other than 1 get of calls on groups that rank 1 destroyed: a list of [rank, seconds, message]."""
    calls: dict[str, Callable[[Group], Any]] = {
        "small": lambda g: g.all_reduce(np.ones(4)),
        "large": lambda g: g.all_reduce(np.ones(500_000)),
        "asynchronous": lambda g: g.all_reduce(np.ones(500_000), async_op=True).wait(),
        "barrier": lambda g: g.barrier(),
        "all_to_all": lambda g: g.all_to_all(np.ones(g.size * 100)),
        "recv": lambda g: g.recv(np.ones(4), 1),
        "irecv": lambda g: g.irecv(np.ones(500_000), 1).wait(),
        "send": lambda g: g.send(np.ones(5_000_000), 1),
        "broadcast": lambda g: [g.broadcast(np.ones(4), root=0) for _ in range(2)],
    }
    heard = []
    for late in (False, True):
        for name, call in calls.items():
            group = world.split(0)
            group.all_reduce(np.ones(3))
            if world.rank == 1:
                group.destroy()
            if late or name in ("send", "broadcast"):  # what was sent before is dropped without a word
                world.barrier()
            if world.rank != 1:
                began = time.monotonic()
                try:
                    call(group)
                    heard.append([name, late, None, 0.0, ""])
                except unisono.RankFailure as error:
                    heard.append([name, late, error.rank, time.monotonic() - began, str(error)])
                group.destroy()
            world.barrier()  # rank 1 lives, and takes part elsewhere
    return heard


@worlds
def test_everybody_who_needs_the_rank_hears_it_at_once(pools: Pools, ranks: int, transport: str) -> None:
    outcome = pools(ranks, transport).run(hearing)
    for rank, heard in enumerate(outcome):
        assert len(heard) == (0 if rank == 1 else 18)
        for name, late, blamed, seconds, message in heard:
            assert blamed == 1, (rank, name, late, message)
            assert "it has destroyed the group" in message, message
            assert seconds < 5, (rank, name, late, seconds)


def in_order(world: Group) -> None:
    order, own = np.random.default_rng(3), np.random.default_rng(world.rank)
    for _ in range(60):
        group = world.split(0)
        kind = order.choice(["sum", "broadcast", "reduce", "gather", "message", "left to destroy"])
        count, root = order.choice([1, 3_000, 300_000]), int(order.integers(world.size))
        if own.random() < 0.3:
            time.sleep(0.004)  # the others are through, and gone, before this one reads what they gave last
        x = np.full(count, float(world.rank))
        if kind == "sum":
            group.all_reduce(x)
            assert x[-1] == sum(range(world.size))
        elif kind == "broadcast":
            group.broadcast(x, root=root)
            assert (x == root).all()
        elif kind == "reduce":
            group.reduce(x, root=root)
        elif kind == "gather":
            assert group.all_gather(x)[root][-1] == root
        elif kind == "message" and world.rank == root:
            for other in range(world.size):
                if other != root:
                    group.send(x, other)
        elif kind == "message":
            group.recv(x, root)
            assert (x == root).all()
        else:
            group.all_reduce(x, async_op=True)
        group.destroy()


@worlds
def test_in_order_nobody_is_missed(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(in_order)


OF_THE_WORLD = """
import pathlib, sys, time
import numpy as np
import unisono

world = unisono.init()
rank, folder = world.rank, pathlib.Path(sys.argv[1])
world.barrier()
if rank == 1:
    world.destroy()
    until = time.monotonic() + 40
    while len(list(folder.iterdir())) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    sys.exit(0 if len(list(folder.iterdir())) == 2 else 9)  # else nobody heard anything of it while this process lived
try:
    world.all_reduce(np.ones(int(sys.argv[2])))
except unisono.RankFailure as error:
    print(rank, "names", error.rank, "destroyed the group" in str(error))
(folder / str(rank)).touch()
"""


@pytest.mark.parametrize("transport", ["shm", "tcp"])
@pytest.mark.parametrize("count", ["10", "3000000"])
def test_the_world_too_while_the_process_lives(tmp_path: Path, transport: str, count: str) -> None:
    command = [unisono_command(), "run", "-n", "3", "--", sys.executable, "-c", OF_THE_WORLD, str(tmp_path), count]
    env = environment({"UNISONO_TRANSPORT": transport})
    done = subprocess.run(command, env=env, timeout=100, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in (0, 2):
        assert f"{rank} names 1 True" in done.stdout, done.stdout + done.stderr


def made_and_destroyed(world: Group) -> int:
    """KiB by which this process's share of shared memory grows with 300 groups."""

    def shared() -> int:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("RssShmem"))

    def make(groups: int) -> None:
        for turn in range(groups):
            group = world.split(0)
            group.all_reduce(np.ones([1, 100, 20_000][turn % 3]))
            group.destroy()
            world.barrier()

    make(60)
    before = shared()
    make(300)
    return shared() - before


@worlds
def test_groups_give_back_their_shared_memory(pools: Pools, ranks: int, transport: str) -> None:
    for grown in pools(ranks, transport).run(made_and_destroyed):
        assert grown < 300, f"{grown} KiB more after 300 groups"  # 5 KiB a group would be 1500

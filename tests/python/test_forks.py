"""Children that a rank makes with os.fork() end in every ordinary way, and the parent's group goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest
from harness.launch import environment, unisono_command

PROGRAM = """
import os, sys
import numpy as np
import unisono

how = sys.argv[1]
world = unisono.init()
others = world.split(0)
store = unisono.make_memory_store()
small, large, mine = np.ones(8), np.ones(300_000), world.empty(300_000)
mine[:] = 1
pending = world.irecv(np.empty(4), tag=7) if world.rank == 0 else None
child = os.fork() if world.rank == 0 else -1
if child == 0:
    if how == "exit":
        sys.exit(3)
    if how == "raise":
        raise ValueError("the child's own trouble")
    if how == "end":
        pass
    if how == "destroy":
        others.destroy()
        world.destroy()
        sys.exit(3)
    if how == "with":
        with world:
            raise SystemExit(3)
    if how == "drop":
        del world, others, pending, mine
        sys.exit(3)
    if how == "use":
        calls = [
            lambda: world.all_reduce(small),
            lambda: others.all_reduce(large),
            lambda: world.barrier(async_op=True),
            lambda: world.send(small, 1),
            lambda: world.empty(4),
            lambda: world.register(large),
            lambda: world.split(0),
            lambda: pending.wait(),
            lambda: store.set("key", b"value"),
        ]
        for number, call in enumerate(calls):
            try:
                call()
            except unisono.InvalidArgument as error:
                assert "forked child" in str(error), error
            else:
                raise AssertionError(f"call {number} was not refused")
        assert not world.made_here and world.size == 2 and pending.done() and pending.error() is not None
        sys.exit(3)
    if how == "world":  # of its own
        own = unisono.init(rank=0, size=1)
        own.all_reduce(small)
        assert own.made_here
        sys.exit(3)
else:
    if child > 0:
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert ended == {"raise": 1, "end": 0}.get(how, 3), ended
    if world.rank == 1:
        world.send(np.ones(4), 0, tag=7)
    if pending is not None:
        pending.wait()
    for group in (world, others):
        for x in (small, large, mine):
            x[:] = group.rank + 1
            group.all_reduce(x)
            assert (x == 3).all()
    print("lives", flush=True)
"""


@pytest.mark.parametrize("how", ["exit", "raise", "end", "destroy", "with", "drop", "use", "world"])
def test_the_parents_group_goes_on(how: str) -> None:
    command = [unisono_command(), "run", "-n", "2", "--", sys.executable, "-W", "ignore", "-c", PROGRAM, how]
    done = subprocess.run(command, env=environment({}), timeout=60, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("lives") == 2, done.stdout


ORPHANED = """
import os, signal, sys, time
import numpy as np
import unisono

world = unisono.init()
world.all_reduce(np.ones(4))
if world.rank == 1:
    if os.fork() == 0:  # a data loader's worker, which lives on
        signal.pause()
    os.kill(os.getpid(), signal.SIGKILL)
began = time.monotonic()
try:
    while True:
        world.all_reduce(np.ones(1000))
except unisono.RankFailure as error:
    assert error.rank == 1 and time.monotonic() - began < 5, error
    print("told", flush=True)
"""


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_a_dead_rank_whose_child_lives_is_heard_of(transport: str) -> None:
    command = [unisono_command(), "run", "-n", "3", "--", sys.executable, "-W", "ignore", "-c", ORPHANED]
    env = environment({"UNISONO_TRANSPORT": transport})
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as job:
        said = ""
        assert job.stdout is not None
        while said.count("told") < 2 and (line := job.stdout.readline()):
            said += line
        assert said.count("told") == 2, said
        job.terminate()

"""Ctrl-C while a rank waits in C++: KeyboardInterrupt at once, in every call that blocks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unisono
from harness import launch
from harness.launch import environment

Group = Any
SOON = 2.0  # seconds


def interrupted(world: Group, case: str, mark: str) -> list[Any]:
    pids = [int(part[0]) for part in world.all_gather(np.array([os.getpid()]))]
    x = np.zeros(1 if case == "tiny" else 100_000)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell runs tests in the background
    world.barrier()
    if world.rank == 1:
        # Rank 0 is about to wait for us. It makes no difference whether the signal comes before or after that.
        time.sleep(0.3)
        sent = time.monotonic()
        os.kill(pids[0], signal.SIGINT)
        while not os.path.exists(mark) and time.monotonic() - sent < 20:  # rank 0 says that it was interrupted
            time.sleep(0.01)
        if case == "wait":  # only the waiting was interrupted
            world.all_reduce(x)
            world.barrier()
            return ["went on", "", sent]
        if case == "recv":  # nothing had come: the receive alone was given up
            world.send(np.full(100_000, 4.0), 0)
            world.all_reduce(x)
            return ["went on", "", sent]
        try:
            for _ in range(2):  # rank 0 may have given its share to the first before it was interrupted
                world.barrier() if case == "barrier" else world.all_reduce(x)
        except unisono.Aborted as error:
            return ["Aborted", str(error), sent]
        return ["nothing", "", sent]
    calls = {
        "tiny": lambda: world.all_reduce(x),
        "large": lambda: world.all_reduce(x),
        "barrier": lambda: world.barrier(),
        "recv": lambda: world.recv(x, src=1),
        "subgroup": lambda: world.subgroup([0, 1]),
    }
    work = world.all_reduce(x, async_op=True) if case == "wait" else None
    try:
        work.wait() if work is not None else calls[case]()
    except KeyboardInterrupt as raised:
        caught = time.monotonic()
        notes = " ".join(getattr(raised, "__notes__", []))
        if case == "subgroup":  # where nothing is aborted: another group is not concerned
            world.abort("interrupted by rank 0 while it made a group")
        with open(mark, "w"):
            pass
        if work is not None:
            work.wait()
            world.barrier()
        if case == "recv":
            world.recv(x, src=1)
            assert (x == 4).all()
            world.all_reduce(x)
        return ["KeyboardInterrupt", notes, caught]
    return ["nothing", "", 0.0]


@pytest.mark.parametrize("transport", ["", "tcp"], ids=["shm", "tcp"])
@pytest.mark.parametrize("case", ["tiny", "large", "barrier", "recv", "wait", "subgroup"])
def test_ctrl_c(tmp_path: Path, transport: str, case: str) -> None:
    env = {"UNISONO_TRANSPORT": transport} if transport else {}
    waiter, other = launch(interrupted, 2, case=case, mark=str(tmp_path / "mark"), env=env).values()
    assert waiter[0] == "KeyboardInterrupt"
    assert waiter[2] - other[2] < SOON, "it took long"
    if case in ("wait", "recv"):
        assert other[0] == "went on"
    else:
        assert other[0] == "Aborted" and "interrupted" in other[1] and "rank 0" in other[1]
    if sys.version_info >= (3, 11) and case not in ("wait", "subgroup"):  # what became of the group
        assert ("can be used as before" if case == "recv" else "cannot be used any more") in waiter[1], waiter[1]


def test_ctrl_c_while_joining(tmp_path: Path) -> None:
    program = f"""
import os, signal, threading, time, unisono
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
start = time.monotonic()
try:
    unisono.init(rank=0, size=2, init_method="file://{tmp_path}/store", init_timeout=30)
except KeyboardInterrupt:
    os._exit(0 if time.monotonic() - start < 5 else 2)
os._exit(1)
"""
    subprocess.run([sys.executable, "-c", program], env=environment({}), timeout=60, check=True)


def test_a_signal_handler_that_returns_does_not_disturb() -> None:
    def handled(world: Group) -> list[int]:
        seen = []
        signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
        pids = [int(part[0]) for part in world.all_gather(np.array([os.getpid()]))]
        x = np.ones(10)
        world.barrier()
        if world.rank == 1:
            os.kill(pids[0], signal.SIGUSR1)
            time.sleep(0.5)
        world.all_reduce(x)
        assert (x == world.size).all()
        return seen

    assert launch(handled, 2).values() == [[int(signal.SIGUSR1)], []]


def destroyed_by_a_handler(world: Group, count: int) -> str:
    """A signal handler of rank 0 destroys the group whose call it interrupts."""
    pid = int(world.all_gather(np.array([os.getpid()]))[0][0])
    group, x, aborted, said = world.split(0), np.zeros(count), np.zeros(1), ""
    if world.rank == 0:
        signal.signal(signal.SIGUSR1, lambda *_: group.destroy())
    world.barrier()
    if world.rank == 1:
        time.sleep(0.3)  # it makes no difference whether the signal comes before or amid the call
        os.kill(pid, signal.SIGUSR1)
    else:
        try:
            group.all_reduce(x)  # nobody answers
        except unisono.Error as error:
            said, aborted[0] = f"{type(error).__name__}: {error}", isinstance(error, unisono.Aborted)
    world.broadcast(aborted, 0)
    if world.rank == 1 and aborted[0]:
        try:
            for _ in range(2):  # rank 0 may have given its share to the first
                group.all_reduce(x)
        except unisono.Error as error:
            said = f"{type(error).__name__}: {error}"
    world.barrier()
    return said


@pytest.mark.parametrize("count", [1, 100_000])
def test_a_handler_that_destroys_the_group_ends_the_call(count: int) -> None:
    ours, theirs = launch(destroyed_by_a_handler, 2, count=count).values()
    if ours.startswith("InvalidArgument"):  # the signal came first
        assert "is used after destroy()" in ours
    else:
        assert ours.startswith("Aborted") and "destroyed in a signal handler" in ours
        assert theirs.startswith("Aborted") and "rank 0" in theirs


def destroys(world: Group) -> str:
    """Ctrl-C while rank 0 waits in destroy() for an operation that rank 1 has yet to take part in."""
    pid, x = int(world.all_gather(np.array([os.getpid()]))[0][0]), np.zeros(100_000)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    group = world.split(0)
    world.barrier()
    if world.rank == 0:
        group.all_reduce(x, async_op=True)
        try:
            group.destroy()
        except KeyboardInterrupt:
            world.barrier()
            return "interrupted"
        return "nothing"
    time.sleep(0.3)  # so that it comes while rank 0 waits
    os.kill(pid, signal.SIGINT)
    world.barrier()
    try:
        for _ in range(2):  # rank 0 may have given its share to the first
            group.all_reduce(x)
    except unisono.Aborted as error:
        return str(error)
    return "nothing"


def test_destroy_is_interrupted() -> None:
    ours, theirs = launch(destroys, 2).values()
    assert ours == "interrupted"
    assert "aborted by rank 0" in theirs

"""Mistakes that several ranks make together: everybody raises, within a second, and the message says what and where."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import unisono
from harness import Pools, launch, unisono_command
from harness.launch import environment

Group = Any
transports = pytest.mark.parametrize("transport", ["", "tcp"], ids=["shm", "tcp"])


def differing(world: Group, case: str) -> list[Any]:
    # On a group of its own, which the mistake ends; rank 0 errs.
    group = world.subgroup(range(world.size))
    rank, x = group.rank, np.zeros(8, np.float32)
    odd = rank == 0
    small = np.zeros(1, np.float32)
    calls = {
        "count": lambda: group.all_reduce(x[:7] if odd else x),
        "count, tiny": lambda: group.all_reduce(x[:1] if odd else x[:2]),
        "count, large": lambda: group.all_reduce(np.zeros(500_001 if odd else 500_000)),
        "dtype": lambda: group.all_reduce(x.astype("i4") if odd else x),
        "op": lambda: group.all_reduce(x, "min" if odd else "max"),
        "root": lambda: group.broadcast(small, root=1 if odd else 0),
        "collective": lambda: group.all_reduce(small) if odd else group.broadcast(small),
        "barrier": lambda: group.barrier() if odd else group.all_reduce(small),
        "counts": lambda: (
            group.all_gather(np.zeros(2), counts=[2] * (group.size - 1) + [3 if odd else 2])
            if rank < group.size - 1
            else group.all_gather(np.zeros(2), counts=[2] * group.size)
        ),
        "asynchronous": lambda: group.all_reduce(x[:7] if odd else x, async_op=True).wait(),
    }
    world.barrier()
    start = time.monotonic()
    try:
        calls[case]()
    except unisono.Mismatch as error:
        took = time.monotonic() - start
        try:
            group.barrier()
        except unisono.Mismatch:
            return [str(error), error.rank, error.other, took]
        return ["the group went on", -1, -1, took]
    return ["nothing was raised", -1, -1, 0.0]


CASES = {
    "count": ("all_reduce", "7", "8"),
    "count, tiny": ("all_reduce", "1", "2"),
    "count, large": ("all_reduce", "500001", "500000"),
    "dtype": ("i32", "f32"),
    "op": ("min", "max"),
    "root": ("broadcast", "root 1", "root 0"),
    "collective": ("all_reduce", "broadcast"),
    "barrier": ("barrier", "all_reduce"),
    "counts": ("all_gather",),
    "asynchronous": ("all_reduce", "7", "8"),
}


@transports
@pytest.mark.parametrize("case", CASES)
def test_ranks_that_call_different_things(pools: Pools, transport: str, case: str) -> None:
    for message, rank, other, took in pools(3, transport).run(differing, case=case):
        assert rank != other and {rank, other} <= {0, 1, 2}, message
        for word in (*CASES[case], "rank 0"):
            assert word in message, message
        assert took < 1.0, f"{took:.2f} s: {message}"


def refused(world: Group) -> list[str]:
    rank, n = world.rank, world.size
    calls: list[Callable[[], object]] = [
        lambda: world.subgroup([0, n]),
        lambda: world.subgroup([0, -1]),
        lambda: world.subgroup([0, 1, 1]),
        lambda: world.subgroup([r for r in range(n) if r != rank]),
        lambda: world.subgroup([]),
        lambda: world.broadcast(np.zeros(1), root=n),
        lambda: world.gather(np.zeros(2), np.zeros(3), root=rank),
        lambda: world.scatter(np.zeros(3), np.zeros(2), root=rank),
        lambda: world.reduce_scatter(np.zeros(n + 1)),
        lambda: world.all_to_all(np.zeros(n + 1)),
        lambda: world.all_gather(np.zeros(1), np.zeros(n, "f4")),
        lambda: world.all_gather(np.zeros(1), counts=[2**62] * n),
    ]
    messages = []
    for call in calls:
        try:
            call()
        except unisono.InvalidArgument as error:
            messages.append(str(error))
        else:
            messages.append("not refused")
    # Nothing was sent: the world is as good as new.
    x = np.array([1.0])
    world.all_reduce(x)
    assert x[0] == n
    return messages


@transports
def test_refused_before_anything_is_sent(pools: Pools, transport: str) -> None:
    expected = [
        ("3", "range"),
        ("-1", "range"),
        ("1", "twice"),
        ("not", "member"),
        ("no ranks",),
        ("root 3", "range"),
        ("gather: out has 3 elements; it needs 6",),
        ("scatter: x has 3 elements; it needs 6",),
        ("reduce_scatter", "first dimension", "3 ranks"),
        ("all_to_all: x has 4 elements", "3 ranks"),
        ("x has elements of type f64 and out of type f32",),
        ("counts overflows",),
    ]
    for messages in pools(3, transport).run(refused):
        for message, words in zip(messages, expected, strict=True):
            for word in words:
                assert word in message, f"{word!r} is not in {message!r}"


def broken(world: Group, rounds: int) -> None:
    # Who hears first that others have left passes it on; what those had sent may come only then.
    for i in range(rounds):
        group = world.subgroup(range(world.size))
        count = 5 if world.rank == i % world.size else 6
        try:
            group.all_reduce(np.zeros(count * (1 if i % 2 else 3000)))
        except unisono.Mismatch:
            del group
        else:
            raise AssertionError("nothing was raised")
        x = np.ones(1)
        world.all_reduce(x)
        assert x[0] == world.size, i


@pytest.mark.parametrize(("ranks", "transport"), [(3, ""), (3, "tcp"), (5, "tcp")])
def test_groups_that_break_do_no_harm_to_others(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(broken, rounds=150)


def late(world: Group, algorithm: str | None) -> list[Any]:
    group = world.subgroup(range(world.size))
    world.barrier()
    result = ["", [], 0.0]
    if world.rank != 1:
        start = time.monotonic()
        try:
            group.all_reduce(np.zeros(3000), timeout=1.0, algorithm=algorithm)
        except unisono.Timeout as error:
            result = [str(error), error.missing, time.monotonic() - start]
    world.barrier()
    return result


@pytest.mark.parametrize(
    ("ranks", "transport", "algorithm"),
    [(3, "", None), (2, "tcp", None), (3, "tcp", "ring"), (5, "tcp", "ring"), (5, "tcp", "recursive_doubling")],
)
def test_a_rank_that_does_not_come(pools: Pools, ranks: int, transport: str, algorithm: str | None) -> None:
    """Over a ring most ranks have no link to the one that is missing; they name it nevertheless."""
    results = pools(ranks, transport).run(late, algorithm=algorithm)
    messages = [message for message, _, _ in results]
    assert "all_reduce" in messages[0] and "rank 1" in messages[0] and "pid" in messages[0], messages
    for rank, (message, missing, seconds) in enumerate(results):
        if rank != 1:
            assert missing == [1], (rank, message)
            assert 0.9 < seconds < 3.0


def two_calls_ahead(world: Group, size: int) -> list[Any]:
    """The last rank makes neither of two calls, in the second of which the root of the first waits already."""
    group = world.subgroup(range(world.size))
    x, out = np.ones(size, np.float32), np.ones(4 * world.size, np.float32)
    group.broadcast(x, 0)
    group.reduce(x, 0)
    world.barrier()
    result: list[Any] = ["", []]
    if world.rank != world.size - 1:
        try:
            group.broadcast(x, 0, timeout=2.0)
            group.all_gather(x[:4], out, timeout=2.0)
        except unisono.Timeout as error:
            result = [str(error), error.missing]
    world.barrier()
    return result


@pytest.mark.parametrize("size", [4, 80_000])
@pytest.mark.parametrize(("ranks", "transport"), [(4, ""), (4, "tcp"), (5, "tcp")])
def test_who_waits_in_an_earlier_call_is_not_blamed(pools: Pools, ranks: int, transport: str, size: int) -> None:
    for message, missing in pools(ranks, transport).run(two_calls_ahead, size=size)[:-1]:
        assert missing == [ranks - 1], message
        assert f"rank {ranks - 1} (host" in message and "since #2 (reduce f32" in message, message


def unanswered(world: Group) -> list[Any]:
    group = world.subgroup(range(world.size))
    result: list[Any] = []
    if world.rank == 0:
        for source in (2, unisono.ANY_RANK):
            try:
                group.recv(np.empty(4), src=source, timeout=0.3)
            except unisono.Timeout as error:
                result.append(error.missing)
    world.barrier()
    return result


@pytest.mark.parametrize("transport", ["", "tcp"], ids=["shm", "tcp"])
def test_who_does_not_send(pools: Pools, transport: str) -> None:
    assert pools(3, transport).run(unanswered)[0] == [[2], []]


def aborted(world: Group) -> list[str]:
    group = world.subgroup(range(world.size))
    messages = []
    if world.rank == 1:
        group.abort("the user closed the window")
    for _ in range(2):
        try:
            group.all_reduce(np.zeros(3000))
        except unisono.Aborted as error:
            messages.append(str(error))
    return messages


@transports
def test_abort(pools: Pools, transport: str) -> None:
    for messages in pools(3, transport).run(aborted):
        assert len(messages) == 2
        for message in messages:
            assert "rank 1" in message and "the user closed the window" in message


def ending(case: str) -> None:
    # A program as a user writes it, with no care for how it ends.
    world = unisono.init()
    if world.rank == 1:
        world.barrier()
        if case == "exception":
            raise RuntimeError("my own mistake")
        if case == "exit":
            sys.exit(3)
        if case == "abrupt":
            os._exit(4)
    try:
        world.barrier()
        for _ in range(1000):
            world.all_reduce(np.zeros(1000))
    except unisono.Error as error:
        print(f"SURVIVOR {world.rank}: {type(error).__name__}: {error}", flush=True)
        raise


def run_program(case: str, transport: str) -> tuple[int, str]:
    header = "import os, sys\nimport numpy as np\nimport unisono\n"
    program = f"{header}{inspect.getsource(ending)}\nending({case!r})\n"
    env = environment({"UNISONO_TRANSPORT": transport} if transport else {})
    command = [unisono_command(), "run", "-n", "3", "--", sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


@transports
@pytest.mark.parametrize(
    ("case", "kind", "words"),
    [
        ("exception", "Aborted", ("rank 1", "RuntimeError: my own mistake")),
        ("exit", "RankFailure", ("rank 1",)),
        ("abrupt", "RankFailure", ("rank 1",)),
    ],
)
def test_a_rank_that_ends_early(transport: str, case: str, kind: str, words: tuple[str, ...]) -> None:
    status, output = run_program(case, transport)
    assert status != 0
    survivors = [line for line in output.splitlines() if "SURVIVOR" in line]
    assert len(survivors) == 2, output
    for line in survivors:
        assert f"{kind}:" in line and all(word in line for word in words), line


def second(world: Group) -> str:
    try:
        unisono.init()
    except unisono.InvalidArgument as error:
        return str(error)
    return "joined twice"


def test_a_second_init() -> None:
    for rank, message in enumerate(launch(second, 2).values()):
        assert "already" in message and f"rank {rank} of 2" in message


def afterwards(world: Group) -> list[str]:
    messages = []
    group = world.subgroup(range(world.size))
    group.destroy()
    group.destroy()
    calls: list[Callable[[], object]] = [
        lambda: group.all_reduce(np.zeros(1)),
        lambda: group.send(np.zeros(1), dst=(world.rank + 1) % world.size),
        lambda: group.subgroup([world.rank]),
        lambda: group.abort("late"),
    ]
    for call in calls:
        try:
            call()
        except unisono.InvalidArgument as error:
            messages.append(str(error))
        else:
            messages.append("not refused")
    return messages


@transports
def test_use_after_destroy(pools: Pools, transport: str) -> None:
    for messages in pools(3, transport).run(afterwards):
        assert all("destroy" in message for message in messages), messages

"""UNISONO_DEBUG=buffers: who changes the memory of an operation in flight hears of it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import unisono
from harness import Pools
from harness.launch import launch

Group = Any
DEBUG = {"UNISONO_DEBUG": "buffers"}
transports = pytest.mark.parametrize("transport", ["shm", "tcp"])


def changes(world: Group) -> list[str]:
    import unisono

    rank, said = world.rank, []
    go = np.zeros(1)
    x: Any = None

    def refused(call: Any) -> str:
        try:
            call()
        except unisono.InvalidArgument as error:
            return str(error)
        return ""

    for count in (8, 200_000):
        for in_place in (True, False):
            x = np.arange(count, dtype=np.float32)
            out = x if in_place else np.zeros_like(x)
            right = 2 * x
            if rank == 1:
                world.recv(go, src=0)
            work = world.all_reduce(x, out=None if in_place else out, async_op=True)
            if rank == 0:
                x[2:5] = -1
                world.send(go, dst=1)
            said.append(refused(work.wait))
            assert work.done() and (out == right).all()
            if said[-1]:
                assert str(work.error()) == said[-1]
        # After the end, too, until the program has heard of it.
        x = np.ones(count)
        work = world.all_reduce(x, async_op=True)
        world.barrier()
        if rank == 0:
            x += 1
        said.append(refused(work.wait))
        x = np.full(count, 3, dtype=np.int64)
        if rank == 0:
            work = world.isend(x, dst=1, tag=1)
            x[1] = 4
            said.append(refused(work.wait))
        else:
            assert world.recv(x, src=0, tag=1).bytes == x.nbytes and (x == 3).all()
            said.append("")
    # A Work that is dropped: nobody asks.
    x = np.ones(5)
    world.all_reduce(x, async_op=True)
    world.barrier()
    x += 1
    world.all_reduce(x)
    assert (x == 6).all()
    return said


@transports
def test_memory_that_changes(transport: str) -> None:
    job = launch(changes, 2, env={**DEBUG, "UNISONO_TRANSPORT": transport})
    one, other = job.values()
    assert other == [""] * 8
    for at in (0, 1, 4, 5):
        name = "buffer (input and output in one)" if at % 2 == 0 else "input"
        assert one[at].startswith(
            f"elements 2 to 4 of the {name} changed while it was in flight: all_reduce f32 sum of "
        )
        assert re.search(r'#\d+ of group "world", on rank 0 \(host \S+, pid \d+\); 3 of \d+ elements differ', one[at])
    for at in (2, 6):
        assert re.match(
            r"elements 0 to \d+ of the buffer .* \(it had ended, but wait\(\) had not yet said so\)", one[at]
        )
    for at in (3, 7):
        assert one[at].startswith("byte 8 of the data changed while it was in flight"), one[at]
        assert re.search(r"send of \d+ bytes to rank 1 \(host ", one[at]), one[at]
    assert one[0] in job.output  # in the log, too: nobody may wait for it


def overlaps(world: Group) -> list[str]:
    import unisono

    said = []
    x, y, go = np.ones(10), np.zeros(10), np.zeros(1)
    if world.rank == 1:
        world.recv(go, src=0)
    work = world.all_reduce(x, out=y, async_op=True)
    if world.rank == 0:
        calls: list[Any] = [
            lambda: world.irecv(x[4:6], src=1),
            lambda: world.isend(y[:1], dst=1),
            lambda: world.broadcast(y[9:], async_op=True),
            lambda: world.all_reduce(y),
        ]
        for call in calls:
            try:
                call()
            except unisono.InvalidArgument as error:
                said.append(str(error))
        world.send(go, dst=1)
    reader = world.all_reduce(x, out=np.zeros(10), async_op=True)  # two may read
    work.wait()
    reader.wait()
    world.all_reduce(y)
    assert (y == 4).all()
    return said


@transports
def test_memory_of_two_operations(transport: str) -> None:
    said = launch(overlaps, 2, env={**DEBUG, "UNISONO_TRANSPORT": transport}).values()[0]
    assert len(said) == 4
    for text, call in zip(
        said, ("recv of 16 bytes", "send of 8 bytes", "broadcast f64 of 1", "all_reduce"), strict=True
    ):
        assert text.startswith(call) and "was refused on rank 0 (host " in text, text
        assert 'of all_reduce f64 sum of 10 elements (80 B) #1 of group "world", which is in flight' in text, text
        assert "Nothing was sent" in text


def of_distributed() -> list[str]:
    import unisono.distributed as dist

    dist.init_process_group()
    rank, said = dist.get_rank(), []

    def ends(work: Any) -> str:
        try:
            work.wait()
        except dist.DistError as error:
            assert not work.is_success()
            return f"{type(error).__name__}: {error}"
        return ""

    x = np.ones(4, dtype=np.float32)
    work = dist.all_reduce(x, async_op=True)
    if rank == 0:
        x += 1
    said.append(ends(work))
    parts = [np.zeros(4) for _ in range(2)]
    y = np.ones(4)
    work = dist.all_gather(parts, y, async_op=True)
    if rank == 0:
        y[3] = 2
    said.append(ends(work))
    if rank == 0:
        work = dist.isend(y, 1)
        y[0] = 5
        said.append(ends(work))
    else:
        dist.recv(y, 0)
    # A future tells of the end.
    z = np.ones(3)
    work = dist.all_reduce(z, async_op=True)
    work.get_future().wait()
    z += 1
    work.wait()
    dist.all_reduce(z)
    assert (z == 6).all()
    dist.destroy_process_group()
    return said


def test_unisono_distributed() -> None:
    one, other = launch(of_distributed, 2, env=DEBUG, join=False).values()
    assert other == ["", ""]
    assert one[0].startswith("InvalidArgument: elements 0 to 3 of the buffer (input and output in one) changed"), one
    assert one[1].startswith("InvalidArgument: element 3 of the input changed"), one
    assert one[2].startswith("InvalidArgument: bytes 6 to 7 of the data changed"), one


def test_words_that_are_unknown() -> None:
    config = unisono.Config()
    config.debug = "bufers"
    with pytest.raises(
        unisono.InvalidArgument, match=r'UNISONO_DEBUG="bufers": "bufers" is unknown; .* of these: buffers'
    ):
        unisono.init(config=config)


def quiet(world: Group) -> None:
    x = np.ones(1000)
    work = world.all_reduce(x, async_op=True)
    x[0] = 5  # not seen
    work.wait()
    world.barrier()


def test_nothing_is_checked_without_it(pools: Pools) -> None:
    pools(2).run(quiet)

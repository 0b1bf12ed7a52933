"""What ranks do in test_life.py. Each function is a whole program."""

# torch.distributed exports less to mypy than to its users.
# mypy: disable-error-code="attr-defined,no-untyped-call,union-attr,arg-type"

from __future__ import annotations

import os
import signal
import threading
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist


def _join(rank: int, size: int, folder: str, timeout: float = 30, name: str = "meet", backend: str = "unisono") -> None:
    dist.init_process_group(
        backend,
        init_method=f"file://{folder}/{name}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=timeout),
    )


def _sum(size: int, **group: Any) -> None:
    x = torch.ones(1000)
    dist.all_reduce(x, **group)
    assert x[0] == size


def through(rank: int, size: int, folder: str, how: str, port: int) -> str:
    """Join by each of torch's ways, twice."""
    gone = dist.FileStore(f"{folder}/gone", size)
    for again in range(2):
        if how == "env":
            os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size))
            dist.init_process_group("unisono")
        elif how == "tcp":
            dist.init_process_group("unisono", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
        elif how == "file":
            _join(rank, size, folder, name=f"meet{again}")
        elif how == "devices":
            dist.init_process_group("cpu:unisono", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
        else:  # one store for both groups: what the first left there must not confuse the second
            if again == 0:
                store = dist.TCPStore("127.0.0.1", port, size, rank == 0)
            dist.init_process_group("unisono", store=store, rank=rank, world_size=size)
        _sum(size)
        assert dist.get_backend() == "unisono" or how == "devices"
        dist.barrier()
        dist.destroy_process_group()
        # Rank 0 serves torch's store. Who comes back before that server has gone would meet it, and not the next one.
        if rank == 0:
            gone.set(str(again), "")
        gone.wait([str(again)])
    return how


def half_an_environment(rank: int, size: int, folder: str) -> None:
    """Variables that say less than the program: the program is right."""
    os.environ["WORLD_SIZE"] = str(size)
    _join(rank, size, folder)
    _sum(size)
    os.environ["RANK"] = str(rank)
    group = dist.new_group(list(range(size)))
    _sum(size, group=group)
    dist.destroy_process_group()


def descriptors_and_memory(rank: int, size: int, folder: str) -> list[int]:
    """How many descriptors are open after each of some groups came and went."""
    _join(rank, size, folder)
    counts = []
    for _ in range(6):
        group = dist.new_group(list(range(size)))
        _sum(size, group=group)
        dist.destroy_process_group(group)
        dist.barrier()
        counts.append(len(os.listdir("/proc/self/fd")))
    dist.destroy_process_group()
    return counts


def killed(rank: int, size: int, folder: str, async_op: bool) -> None:
    """Rank 1 dies in the middle."""
    _join(rank, size, folder)
    _sum(size)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    x = torch.ones(1000)
    if async_op:
        work = dist.all_reduce(x, async_op=True)
        assert work is not None
        work.get_future().wait()
    else:
        dist.all_reduce(x)


def mismatched(rank: int, size: int, folder: str) -> None:
    _join(rank, size, folder)
    if rank == 0:
        dist.all_reduce(torch.ones(3))
    else:
        dist.all_reduce(torch.ones(4))


def late(rank: int, size: int, folder: str, how: str) -> None:
    """Rank 0 does not come; the group's timeout, or that of the call."""
    # A group's timeout is that of joining it, too: the ranks, which take seconds to start, first wait for each other.
    here = dist.FileStore(f"{folder}/here", size)
    here.set(str(rank), "1")
    here.wait([str(r) for r in range(size)], timedelta(seconds=60))
    _join(rank, size, folder, timeout=1.5 if how == "group" else 30)
    if rank == 0:
        dist.distributed_c10d._store_based_barrier  # noqa: B018 - it must only stay alive
        store = dist.distributed_c10d._get_default_store()
        store.wait(["over"], timedelta(seconds=30))
        return
    try:
        if how == "set":
            dist.distributed_c10d._get_default_group().set_timeout(timedelta(seconds=0.5))
        if how == "call":
            dist.barrier(timeout=timedelta(seconds=0.5))
        else:
            dist.barrier()
    finally:
        if rank == 1:
            dist.distributed_c10d._get_default_store().set("over", "1")


def aborted(rank: int, size: int, folder: str) -> str:
    """One rank aborts; the others, which wait, hear it."""
    _join(rank, size, folder)
    group = dist.distributed_c10d._get_default_group()
    if rank == 0:
        group.abort()
    try:
        dist.all_reduce(torch.ones(3))
    except dist.DistBackendError as error:
        return str(error)
    raise AssertionError("nothing was raised")


def stopped_by_hand(rank: int, size: int, folder: str, how: str) -> str:
    """Ctrl-C while rank 0 waits for the others."""
    _join(rank, size, folder)
    store = dist.distributed_c10d._get_default_store()
    if rank:
        store.wait(["over"], timedelta(seconds=30))
        return ""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell runs tests in the background
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    try:
        if how == "blocking":
            dist.barrier()
        else:
            work = dist.barrier(async_op=True)
            assert work is not None
            work.wait()
    except KeyboardInterrupt:
        assert time.monotonic() - start < 10
        return "interrupted"
    finally:
        store.set("over", "1")
    raise AssertionError("nothing was raised")


def raises_in_the_middle(rank: int, size: int, folder: str) -> None:
    """An exception on rank 1 that nobody catches; the others wait for it."""
    _join(rank, size, folder)
    _sum(size)
    if rank == 1:
        raise ValueError("the forward pass of rank 1 went wrong")
    dist.all_reduce(torch.ones(3))


def leaves_without_destroying(rank: int, size: int, folder: str) -> None:
    """What was sent arrives although the sender's program is over."""
    _join(rank, size, folder)
    if rank == 0:
        dist.isend(torch.full((3_000_000,), 5.0), 1)
        return
    if rank == 1:
        x = torch.zeros(3_000_000)
        dist.recv(x, 0)
        assert (x == 5).all()


def ends_beside_daemons(rank: int, size: int, folder: str, raised: bool) -> None:
    """Daemon threads of all ranks wait in calls that nobody answers; the last rank to end sees the others leave."""
    _join(rank, size, folder)
    groups = [dist.new_group() for _ in range(3)]
    dist.barrier()
    calls = [
        lambda: dist.all_reduce(torch.ones(4), group=groups[0]),
        lambda: dist.all_reduce(torch.ones(4), group=groups[1], async_op=True).wait(),
        lambda: dist.recv(torch.ones(4), 1 - rank, group=groups[2]),
    ]
    begun = [threading.Event() for _ in calls]

    def wait(i: int) -> None:
        begun[i].set()
        calls[i]()

    # No collective has all its ranks.
    for i in [0, 1, 2] if rank == 0 else [2]:
        threading.Thread(target=wait, args=(i,), daemon=True).start()
        begun[i].wait()
    time.sleep(0.2 if rank == 0 else 0.4)  # not for order: so that they are in their calls
    if raised and rank == 1:
        raise RuntimeError("on purpose")


def ends_in_the_middle(rank: int, size: int, folder: str) -> float:
    """Rank 0 ends with works at hand that it has not waited for: what the others do with it is done all the same."""
    _join(rank, size, folder)
    x = torch.full((1000, 3), float(rank)).t()
    never = dist.irecv(torch.zeros(3), 1 - rank, tag=5) if rank < 2 else None
    works = [dist.all_reduce(x, async_op=True), dist.barrier(async_op=True)]
    if rank != 0:
        for work in works:
            assert work is not None
            work.wait()
        assert (x == sum(range(size))).all()
    globals()["kept"] = (never, works)
    return 1.0


def hangs_at_the_end(rank: int, size: int, folder: str) -> str:
    """Rank 0 ends in a collective that rank 1 never calls; rank 1 hears so."""
    _join(rank, size, folder)
    if rank == 0:
        globals()["kept"] = dist.all_reduce(torch.ones(3), async_op=True)
        return ""
    try:
        dist.recv(torch.zeros(3), 0)
    except dist.DistBackendError as error:
        return str(error)
    raise AssertionError("nothing was raised")


def monitored(rank: int, size: int, folder: str, wait_all_ranks: bool) -> str:
    """Only ranks 0 and 3 come, when it is about them."""
    from unisono.torch import monitored_barrier

    _join(rank, size, folder)
    monitored_barrier(timeout=timedelta(seconds=30))
    store = dist.distributed_c10d._get_default_store()
    if rank in (1, 2):
        store.wait(["over"], timedelta(seconds=30))
        return ""
    try:
        monitored_barrier(timeout=timedelta(seconds=1), wait_all_ranks=wait_all_ranks)
    except RuntimeError as error:
        return str(error)
    finally:
        if rank == 0:
            store.set("over", "1")
    raise AssertionError("nothing was raised")


def watched_by_torch(rank: int, size: int, folder: str) -> str:
    """TORCH_DISTRIBUTED_DEBUG=DETAIL: torch's own wrapper compares calls before they are made."""
    _join(rank, size, folder)
    _sum(size)
    group = dist.new_group([0, 1])
    if rank < 2:
        _sum(2, group=group)
    dist.barrier()
    try:
        dist.all_reduce(torch.ones(3 + rank))
    except RuntimeError as error:
        return str(error)
    raise AssertionError("nothing was raised")


def uneven_at_the_root(rank: int, size: int, folder: str, what: str) -> str:
    """Only the root can see that the parts do not fit; the others wait for it."""
    _join(rank, size, folder)
    parts = [torch.zeros(3 if r != 1 else 4) for r in range(size)] if rank == 0 else None
    try:
        if what == "gather":
            dist.gather(torch.zeros(3), parts, dst=0)
        else:
            dist.scatter(torch.zeros(3), parts, src=0)
    except RuntimeError as error:
        return str(error)
    raise AssertionError("nothing was raised")


def waiting_for_each_other(rank: int, size: int, folder: str, how: str) -> None:
    """Each rank receives before it sends, or calls something else than the one that it waits for."""
    _join(rank, size, folder)
    x, left = torch.ones(100_000), (rank - 1) % size
    _sum(size)
    if how == "recv":
        dist.recv(x, src=left)
    elif how == "irecv":
        dist.irecv(x, src=left).wait()
    elif rank == 0:
        dist.recv(x, src=left)
    else:
        dist.all_reduce(x)

"""What ranks do in test_adoption.py. Each function is a whole program."""

# torch.distributed exports less to mypy than to its users.
# mypy: disable-error-code="attr-defined,no-untyped-call,union-attr,arg-type"

from __future__ import annotations

import gc
import os

import numpy
import torch
import torch.distributed as dist
from unisono.torch import is_shared

BYTES = 48 << 20  # so that the third use pays
COUNT = BYTES // 4
USES = 3


def _join(rank: int, size: int, folder: str, name: str = "meet") -> None:
    dist.init_process_group("unisono", init_method=f"file://{folder}/{name}", rank=rank, world_size=size)


def _sum_up(x: torch.Tensor, size: int, times: int) -> None:
    each = torch.arange(x.numel(), dtype=torch.int32).remainder_(7).to(x.dtype)
    for _ in range(times):
        x.copy_(each)
        dist.all_reduce(x)
        assert torch.equal(x, each * size)


def comes_back(rank: int, size: int, folder: str) -> list[bool]:
    """Whether it is shared after each use. The same object at the same place, whatever looks at it."""
    _join(rank, size, folder)
    x = torch.zeros(COUNT)
    place, view, array = x.data_ptr(), x[7:1000], x.numpy()
    shared = []
    for _ in range(USES + 1):
        _sum_up(x, size, 1)
        shared.append(is_shared(x))
        assert x.data_ptr() == place and view[0] == x[7] == array[7]
    x.fill_(3)
    assert is_shared(view) and (view == 3).all() and (array == 3).all()
    array[:] = 4
    dist.all_reduce(x)
    assert (view == 4 * size).all()
    dist.destroy_process_group()
    return shared


def comes_back_private(rank: int, size: int, folder: str) -> list[bool]:
    """Whether it is shared after each use."""
    _join(rank, size, folder)
    x, shared = torch.zeros(COUNT), []
    for _ in range(USES + 1):
        _sum_up(x, size, 1)
        shared.append(is_shared(x))
    dist.destroy_process_group()
    return shared


def every_collective(rank: int, size: int, folder: str) -> dict[str, list[bool]]:
    """Right results on all sides of the change. Whose memory is shared in the end: what other ranks reach."""
    _join(rank, size, folder)
    ranks = torch.arange(size, dtype=torch.float32).view(-1, 1)
    shared = {}
    part, whole = COUNT // size, COUNT // size * size
    for name in ("all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter"):
        x, y = torch.zeros(COUNT if name in ("broadcast", "reduce") else part), torch.zeros(whole)
        parts = list(y.chunk(size)) if rank == 0 else None
        z = torch.zeros(whole)
        for use in range(USES * size + 1):
            x.fill_(rank + use)
            if name == "all_gather":
                dist.all_gather_into_tensor(y, x)
                assert (y.view(size, -1) == ranks + use).all()
            elif name == "reduce_scatter":
                dist.reduce_scatter_tensor(x, y.fill_(use))
                assert (x == size * use).all()
            elif name == "all_to_all":
                y.fill_(rank + use)
                dist.all_to_all_single(z, y)
                assert (z.view(size, -1) == ranks + use).all()
            elif name == "broadcast":
                dist.broadcast(x, 0)
                assert (x == use).all()
            elif name == "reduce":
                dist.reduce(x, 0)
                assert rank != 0 or (x == size * (size - 1) // 2 + size * use).all()
            elif name == "gather":
                dist.gather(x, parts, 0)
                assert rank != 0 or (y.view(size, -1) == ranks + use).all()
            else:
                y.view(size, -1).copy_((ranks + use).expand(size, part))
                dist.scatter(x, parts, 0)
                assert (x == rank + use).all()
        shared[name] = [is_shared(x), is_shared(y)]
    dist.destroy_process_group()
    return shared


def messages(rank: int, size: int, folder: str) -> list[bool]:
    """Right on all sides of the change, in halves meanwhile, too. Whether what is sent and received is shared then."""
    _join(rank, size, folder)
    x, y, ramp = torch.zeros(COUNT), torch.zeros(COUNT), torch.arange(COUNT, dtype=torch.float32)
    right, left = (rank + 1) % size, (rank - 1) % size
    for use in range(USES + 2):
        torch.add(ramp, rank + use, out=x)
        sent = dist.isend(x, right)
        dist.recv(y, left)
        sent.wait()
        assert torch.equal(y, ramp + (left + use))
        halves = [dist.irecv(half, left) for half in y.chunk(2)]
        for half in x.flip(0).chunk(2):
            dist.send(half, right)
        for work in halves:
            work.wait()
        assert torch.equal(y, (ramp + (left + use)).flip(0))
    dist.barrier()
    shared = [is_shared(x), is_shared(y)]
    dist.destroy_process_group()
    return shared


def in_a_row(rank: int, size: int, folder: str) -> bool:
    """Operations that are under way while the tensor's turn comes: what they write must not be lost."""
    _join(rank, size, folder)
    x = torch.zeros(COUNT)
    for _ in range(3):
        x.fill_(1)
        all_work = [dist.all_reduce(x, async_op=True) for _ in range(USES + 2)]
        for work in all_work:
            assert work is not None
            work.wait()
        assert (x == size ** len(all_work)).all()
    halves, word = torch.zeros(COUNT), torch.zeros(1)
    for _ in range(USES + 1):
        halves.fill_(1)
        if rank == 1:  # on rank 0 the half is under way when the whole has its turn
            dist.recv(word, 0)
        half = dist.all_reduce(halves[: COUNT // 2], async_op=True)
        whole = dist.all_reduce(halves, async_op=True)
        assert half is not None and whole is not None
        if rank == 0:
            assert not is_shared(halves)
            dist.send(word, 1)
        half.wait()
        whole.wait()
        assert (halves[: COUNT // 2] == size * size).all() and (halves[COUNT // 2 :] == size).all()
    dist.destroy_process_group()
    return is_shared(x)


def stays_private(rank: int, size: int, folder: str) -> None:
    """What is not worth it, and what is not torch's own or not the whole of it."""
    _join(rank, size, folder)
    array = numpy.zeros(COUNT, dtype=numpy.float32)
    small, part = torch.zeros(1000), torch.zeros(COUNT)
    for tensor in (torch.from_numpy(array), small, part[1:], torch.zeros(COUNT).share_memory_(), torch.zeros(2 << 18)):
        for _ in range(USES + 2):
            tensor.fill_(1)
            dist.all_reduce(tensor)
            assert (tensor == size).all()
        assert not is_shared(tensor)
    for _ in range(USES + 2):  # new ones each time, at the same address as it may be
        tensor = torch.zeros(COUNT)
        dist.all_reduce(tensor)
        assert not is_shared(tensor)
        del tensor
    dist.destroy_process_group()


def is_freed(rank: int, size: int, folder: str) -> None:
    """Memory goes with the tensor, in its group's time and after it."""
    _join(rank, size, folder)
    dist.all_reduce(torch.ones(1))
    for _ in range(4):
        x = torch.zeros(COUNT)
        _sum_up(x, size, USES)
        assert is_shared(x) and _shared_here() >= BYTES // 2
        x.untyped_storage().resize_(0)
        assert not is_shared(x) and _shared_here() < BYTES // 2
    x = torch.zeros(COUNT)
    _sum_up(x, size, USES)
    x.resize_(COUNT + 1)  # to new memory, with its contents
    assert not is_shared(x) and x[1] == size and _shared_here() < BYTES // 2
    x = torch.zeros(COUNT)
    _sum_up(x, size, USES)
    dist.destroy_process_group()
    assert is_shared(x) and x[1] == size
    _join(rank, size, folder, "again")  # other memory is shared now
    _sum_up(x, size, USES)
    assert is_shared(x)
    dist.destroy_process_group()
    del x
    gc.collect()
    assert _shared_here() == 0


def _shared_here() -> int:
    """Bytes of this process's addresses outside the segment where pages of a segment lie, and so can be given back."""
    total = 0
    with open("/proc/self/maps") as maps:
        for line in maps:
            addresses, _, offset, _, _, *name = line.split()
            if name and "memfd:unisono" in name[0] and int(offset, 16) != 0:
                first, last = (int(a, 16) for a in addresses.split("-"))
                total += last - first
    return total


def forked(rank: int, size: int, folder: str) -> None:
    """A child has its own copy, and so has the parent: private from its next use on, as it may fork again."""
    _join(rank, size, folder)
    x, y = torch.zeros(COUNT), torch.zeros(COUNT)
    _sum_up(x, size, USES)
    assert is_shared(x)
    x.fill_(5)
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        right = bool((x == 5).all())
        x.fill_(6)
        os.write(tell, b"x")
        os._exit(0 if right and bool((x == 6).all()) else 1)
    os.read(told, 1)
    assert is_shared(x) and (x == 5).all()
    assert os.waitpid(child, 0)[1] == 0
    dist.all_reduce(x)
    assert not is_shared(x) and (x == 5 * size).all()
    _sum_up(x, size, USES)
    _sum_up(y, size, USES)
    assert not is_shared(x) and not is_shared(y)
    dist.destroy_process_group()


def forked_before(rank: int, size: int, folder: str) -> bool:
    """A child from before that changes nothing."""
    _join(rank, size, folder)
    x = torch.zeros(COUNT)
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    _sum_up(x, size, USES)
    dist.destroy_process_group()
    return is_shared(x)

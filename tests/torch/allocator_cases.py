"""What ranks do in test_allocator.py. Each function is a whole program."""

# torch.distributed exports less to mypy than to its users.
# mypy: disable-error-code="attr-defined,no-untyped-call,union-attr,arg-type"

from __future__ import annotations

import os
import threading
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from unisono.torch import is_shared, shared_allocator

CPU = torch.device("cpu")
LARGE = 1 << 18  # elements


def _join(rank: int, size: int, folder: str, name: str = "meet", backend: str = "unisono") -> None:
    dist.init_process_group(backend, init_method=f"file://{folder}/{name}", rank=rank, world_size=size)


def _segments(writable: bool) -> set[str]:
    """The segments that this process maps, by inode. It writes to a peer's once a collective ran on buffers there."""
    found = set()
    with open("/proc/self/maps") as maps:
        for line in maps:
            _, rights, _, _, inode, *name = line.split()
            if name and "memfd:unisono" in name[0] and (not writable or "w" in rights):
                found.add(inode)
    return found


def where_tensors_lie(rank: int, size: int, folder: str) -> None:
    """Inside, what this thread allocates and is not small; nothing else."""
    _join(rank, size, folder)
    assert not is_shared(torch.empty(LARGE))
    with shared_allocator():
        x = torch.empty(LARGE)
        assert is_shared(x) and is_shared(x[7:].view(-1)) and x.data_ptr() % 4096 == 0
        assert is_shared(torch.ones(LARGE, dtype=torch.bfloat16)) and is_shared(x.clone()) and is_shared(x + x)
        assert not is_shared(torch.empty(100))
        seen = []
        other = threading.Thread(target=lambda: seen.append(is_shared(torch.empty(LARGE))))
        other.start()
        other.join()
        assert seen == [False]
        with shared_allocator(min_bytes=1 << 30):
            assert not is_shared(torch.empty(LARGE))
        assert is_shared(torch.empty(LARGE))
    assert not is_shared(torch.empty(LARGE)) and is_shared(x)
    x.fill_(3)
    x.resize_(2 * LARGE)  # outside: to torch's own memory, with its contents
    assert not is_shared(x) and (x[:LARGE] == 3).all()
    dist.destroy_process_group()


def _collectives(rank: int, size: int, make: Any) -> None:
    """Right results, whoever's tensors lie where."""
    for kind in (torch.float32, torch.bfloat16, torch.int64):
        x = make(LARGE, kind).fill_(rank + 1)
        dist.all_reduce(x)
        assert (x == size * (size + 1) // 2).all()
        parts = make(size * LARGE, kind)
        dist.all_gather_into_tensor(parts, x.fill_(rank))
        assert (parts.view(size, -1) == torch.arange(size, dtype=kind).view(-1, 1)).all()
        dist.reduce_scatter_tensor(x, parts)
        assert (x == rank * size).all()
        dist.broadcast(x, size - 1)
        assert (x == (size - 1) * size).all()
        swapped = make(size * LARGE, kind)
        dist.all_to_all_single(swapped, parts.fill_(rank))
        assert (swapped.view(size, -1) == torch.arange(size, dtype=kind).view(-1, 1)).all()
        work = dist.all_reduce(swapped, async_op=True)
        assert work is not None
        work.wait()
        assert (swapped.view(size, -1) == size * torch.arange(size, dtype=kind).view(-1, 1)).all()


def copies_nothing(rank: int, size: int, folder: str, who: str) -> int:
    """How many segments of peers this rank writes to: all when all ranks allocate there, none when one does not."""
    _join(rank, size, folder)
    mine = who == "all" or rank == 0

    def make(elements: int, kind: torch.dtype) -> torch.Tensor:
        if not mine:
            return torch.empty(elements, dtype=kind)
        with shared_allocator():
            return torch.empty(elements, dtype=kind)

    assert len(_segments(writable=True)) == 1
    _collectives(rank, size, make)
    written = len(_segments(writable=True)) - 1
    dist.barrier()
    dist.destroy_process_group()
    return written


def outlives_its_group(rank: int, size: int, folder: str) -> None:
    """Tensors live on; memory goes when they do. A scope whose group is gone gives ordinary memory."""
    _join(rank, size, folder)
    with shared_allocator():
        x = torch.ones(LARGE)
        dist.all_reduce(x)
        assert is_shared(x)
        dist.barrier()
        dist.destroy_process_group()
        assert not is_shared(torch.empty(LARGE))
    assert (x == size).all() and is_shared(x)
    x += 1
    assert (x == size + 1).all()
    _join(rank, size, folder, name="again")
    dist.all_reduce(x)  # memory of another world: ordinary memory to this one
    assert (x == size * (size + 1)).all()
    dist.destroy_process_group()
    y = x[3:]
    del x
    assert len(_segments(writable=False)) == 1
    del y
    assert not _segments(writable=False)


def memory_is_used_again(rank: int, size: int, folder: str) -> int:
    """How many places 40 tensors, one after the other, lay in."""
    _join(rank, size, folder)
    places = set()
    with shared_allocator():
        for i in range(40):
            x = torch.full((8 << 20,), float(i))
            places.add(x.data_ptr())
            del x
    dist.destroy_process_group()
    return len(places)


def forked(rank: int, size: int, folder: str) -> None:
    """A child takes nothing from its parent's segment."""
    _join(rank, size, folder)
    backend = dist.distributed_c10d._get_default_group()._get_backend(CPU)
    with shared_allocator():
        x = torch.ones(LARGE)
        child = os.fork()
        if child == 0:
            good = not is_shared(torch.empty(LARGE)) and x[LARGE - 1].item() == 1
            try:
                backend.allocate_tensor(LARGE, dtype=torch.float32, device=CPU)
                good = False
            except RuntimeError as error:
                good = good and "forked" in str(error)
            os._exit(0 if good else 1)
        assert os.waitpid(child, 0)[1] == 0
    del x
    dist.destroy_process_group()


def without_shared_memory(rank: int, size: int, folder: str) -> None:
    """Over tcp alone it is ordinary memory, and nobody is told otherwise."""
    _join(rank, size, folder)
    backend = dist.distributed_c10d._get_default_group()._get_backend(CPU)
    assert not backend.supports_tensor_alloc(CPU)
    with shared_allocator():
        x = torch.ones(LARGE)
    assert not is_shared(x)
    dist.all_reduce(x)
    assert (x == size).all()
    dist.destroy_process_group()


def refused(rank: int, size: int, folder: str) -> list[str]:
    """What it says to wrong use."""
    texts = []

    def expect(kind: type[Exception], what: Any) -> None:
        try:
            what()
        except kind as error:
            texts.append(str(error))
            return
        raise AssertionError(f"no {kind.__name__}")

    expect(ValueError, lambda: shared_allocator().__enter__())
    _join(rank, size, folder, name="gloo", backend="gloo")
    expect(TypeError, lambda: shared_allocator().__enter__())
    dist.destroy_process_group()
    _join(rank, size, folder)
    first, second = shared_allocator(), shared_allocator()
    first.__enter__()
    second.__enter__()
    expect(RuntimeError, lambda: first.__exit__(None, None, None))
    second.__exit__(None, None, None)
    backend = dist.distributed_c10d._get_default_group()._get_backend(CPU)
    assert backend.supports_tensor_alloc(CPU) and not backend.supports_tensor_alloc(torch.device("cuda", 0))
    expect(RuntimeError, lambda: backend.allocate_tensor(8, dtype=torch.float32, device=torch.device("meta")))
    expect(torch.OutOfMemoryError, lambda: backend.allocate_tensor(1 << 45, dtype=torch.float32, device=CPU))
    dist.destroy_process_group()
    return texts


def _network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8))


def _train(model: nn.Module, rank: int, steps: int = 4) -> torch.Tensor:
    random = torch.Generator().manual_seed(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(16, 64, generator=random)).square().mean().backward()
        optimizer.step()
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def _wrapped(as_view: bool) -> DistributedDataParallel:
    return DistributedDataParallel(_network(), bucket_cap_mb=0.1, gradient_as_bucket_view=as_view)


def ddp(rank: int, size: int, folder: str, shared: bool, as_view: bool) -> None:
    """Buckets are shared in every step, before and after they are made anew, or in none; the training is the same."""
    _join(rank, size, folder)
    switch = os.environ["DDP_DISABLE_COMM_MEM"]
    os.environ["DDP_DISABLE_COMM_MEM"] = "1"
    wanted = _train(_wrapped(as_view), rank)
    os.environ["DDP_DISABLE_COMM_MEM"] = switch
    buckets: list[bool] = []

    def hook(state, bucket):  # type: ignore[no-untyped-def] # torch compares annotations, and these would be text
        buckets.append(is_shared(bucket.buffer()))
        work = dist.all_reduce(bucket.buffer().div_(size), async_op=True)
        assert work is not None
        return work.get_future().then(lambda f: f.value()[0])

    model = _wrapped(as_view)
    model.register_comm_hook(None, hook)
    got = _train(model, rank)
    # One bucket in the first step; then they are made anew, two a step.
    assert buckets == [shared] * (1 + 2 * 3)
    assert torch.allclose(got, wanted, rtol=1e-6, atol=1e-7)
    if as_view:
        assert all(is_shared(p.grad) == shared for p in model.parameters())
    dist.destroy_process_group()


def fsdp2(rank: int, size: int, folder: str) -> None:
    """Its communication buffers are shared when it is told to ask for them; the training is the same."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.fsdp._fully_shard import _fsdp_collectives as collectives

    _join(rank, size, folder)
    mesh = dist.device_mesh.init_device_mesh("cpu", (size,))

    def train(shared: bool) -> torch.Tensor:
        model = _network()
        fully_shard(model, mesh=mesh)
        if shared:
            model.set_allocate_memory_from_process_group_for_comm(True)  # type: ignore[operator]
        _train(model, rank)
        return torch.cat([p.full_tensor().reshape(-1) for p in model.parameters()])

    wanted = train(shared=False)
    given: list[bool] = []
    allocate = collectives.ProcessGroupAllocMixin.allocate

    def watched(self: Any, *arguments: Any, **more: Any) -> torch.Tensor:
        tensor = allocate(self, *arguments, **more)
        given.append(is_shared(tensor))
        return tensor

    collectives.ProcessGroupAllocMixin.allocate = watched  # type: ignore[method-assign]
    got = train(shared=True)
    assert len(given) >= 8 and all(given), given
    assert torch.equal(got, wanted)
    dist.destroy_process_group()

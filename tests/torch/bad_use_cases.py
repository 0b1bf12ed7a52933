"""Mistakes, and deaths in the middle of training.

Functions with (rank, size, folder) are whole programs; the others run on all ranks of a group, and return what they
were told.
"""

# torch.distributed exports less to mypy than to its users.
# mypy: disable-error-code="attr-defined,no-untyped-call,union-attr,arg-type"

from __future__ import annotations

import contextlib
import gc
import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from backend_pair import told
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH = 64


def _join(rank: int, size: int, folder: str, name: str = "meet") -> None:
    dist.init_process_group(
        "unisono",
        init_method=f"file://{folder}/{name}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=100),  # nothing here is noticed by running out of time
    )


class Interrupted(torch.autograd.Function):
    """The identity, in whose backward pass something happens."""

    @staticmethod
    def forward(ctx: object, x: torch.Tensor, what: Callable[[], None]) -> torch.Tensor:
        ctx.what = what
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        ctx.what()
        return gradient, None


class Net(nn.Module):
    """Layers, each in a bucket of its own; in the middle of the backward pass, or before the forward pass, a call."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(4)])
        self.in_forward: Callable[[], None] = lambda: None
        self.in_backward: Callable[[], None] = lambda: None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.in_forward()
        for i, layer in enumerate(self.layers):
            x = torch.tanh(layer(x))
            if i == 1:
                x = Interrupted.apply(x, lambda: self.in_backward())
        return x


def _model(**options: object) -> tuple[Net, DistributedDataParallel]:
    torch.manual_seed(0)
    net = Net()
    return net, DistributedDataParallel(net, **{"bucket_cap_mb": 0.01, **options})


def _train(model: nn.Module, rank: int, steps: int = 3) -> None:
    for step in range(steps):
        model.zero_grad()
        x = torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(10 * step + rank))
        torch.autograd.backward(model(x).square().mean())


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_in_backward(rank: int, size: int, folder: str) -> None:
    """Rank 1 dies when some of its gradients are on their way and others are not."""
    _join(rank, size, folder)
    net, model = _model()
    _train(model, rank)
    if rank == 1:
        net.in_backward = _kill
    _train(model, rank)


def killed_in_a_hook(rank: int, size: int, folder: str) -> None:
    """The same while a communication hook's future is waited for."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    _join(rank, size, folder)
    net, model = _model()
    model.register_comm_hook(None, fp16_compress_hook)
    _train(model, rank)
    if rank == 1:
        net.in_backward = _kill
    _train(model, rank)


def killed_in_shards(rank: int, size: int, folder: str) -> None:
    """The same with FSDP2, whose backward pass gathers parameters and scatters gradients."""
    from torch.distributed.fsdp import fully_shard

    _join(rank, size, folder)
    torch.manual_seed(0)
    net = Net()
    for layer in net.layers:
        fully_shard(layer)
    fully_shard(net)
    _train(net, rank)
    if rank == 1:
        net.in_backward = _kill
    _train(net, rank)


def _raise(text: str) -> None:
    raise ValueError(text)


def raises_in_forward(rank: int, size: int, folder: str) -> None:
    _join(rank, size, folder)
    net, model = _model()
    _train(model, rank)
    if rank == 1:
        net.in_forward = lambda: _raise("the forward pass of rank 1 went wrong")
    _train(model, rank)


def raises_in_backward(rank: int, size: int, folder: str) -> None:
    _join(rank, size, folder)
    net, model = _model()
    _train(model, rank)
    if rank == 1:
        net.in_backward = lambda: _raise("the backward pass of rank 1 went wrong")
    _train(model, rank)


def other_model() -> str:
    """Rank 1's model has a larger layer. torch compares shapes when DDP is made, and raises on all ranks but 0."""

    def program() -> None:
        model = DistributedDataParallel(nn.Linear(4, 4 + (dist.get_rank() == 1)))
        torch.autograd.backward(model(torch.ones(2, 4)).sum())

    text = told(program)
    if dist.get_rank() == 1:
        dist.group.WORLD.abort()
    return text


class Half(nn.Module):
    """Rank 0 does not use the second layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers[0](x)
        return y if dist.get_rank() == 0 else self.layers[1](y)


def forgotten_parameters() -> str:
    """find_unused_parameters is off: torch says so on rank 0, at its second step; the others wait in their first."""
    model = DistributedDataParallel(Half())
    dist.barrier()  # rank 0, which only sends so far, could abort while others still construct theirs

    def program() -> None:
        for _ in range(2):
            torch.autograd.backward(model(torch.ones(2, 4)).sum())

    text = told(program)
    if dist.get_rank() == 0:
        dist.group.WORLD.abort()
    return text


def other_collective(detail: bool) -> str:
    """Rank 1 calls broadcast, the others all_reduce; detail: with torch's own checks as well."""
    rank, group = dist.get_rank(), dist.group.WORLD
    before = dist.get_debug_level()
    if detail:
        dist.set_debug_level(dist.DebugLevel.DETAIL)
        group = dist.new_group()
    x = torch.ones(12)
    text = told(lambda: dist.broadcast(x, 0, group=group) if rank == 1 else dist.all_reduce(x, group=group))
    dist.set_debug_level(before)
    return text


def other_shapes_in_flight() -> str:
    """Asynchronous, and noticed where they are waited for, or where the last one is begun if the others are so far."""
    rank = dist.get_rank()

    def go() -> None:
        shapes = [1000 + (rank == 1 and i == 2) for i in range(4)]
        for work in [dist.all_reduce(torch.ones(shape), async_op=True) for shape in shapes]:
            work.wait()

    return told(go)


def other_device() -> list[str]:
    """Tensors that are not in this host's memory: refused at once, by each rank for itself, and the group goes on.

    torch itself refuses tensors on cuda when no back end was named for them. For meta it has collectives that do
    nothing; so they are handed to the back end.
    """
    size = dist.get_world_size()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    x, parts = torch.ones(3, device="meta"), [torch.ones(3, device="meta") for _ in range(size)]
    whole = torch.ones(3 * size, device="meta")
    texts = [
        told(lambda: backend.allreduce([x])),
        told(lambda: backend.broadcast([x], dist.BroadcastOptions())),
        told(lambda: backend.allgather([parts], [x])),
        told(lambda: backend._allgather_base(whole, x)),
        told(lambda: backend.alltoall_base(whole, whole, [], [])),
        told(lambda: backend.send([x], (dist.get_rank() + 1) % size, 0)),
    ]
    y = torch.ones(3)
    dist.all_reduce(y)
    assert y[0] == size
    if torch.cuda.is_available():
        texts.append(told(lambda: dist.all_reduce(torch.ones(3, device="cuda"))))
    return texts


def freed_early() -> int:
    """Messages and collectives whose tensors the program forgets at once, and whose memory it uses again."""
    rank, size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    kept = []
    for i in range(50):
        dist.isend(torch.full((40_000,), 100.0 * rank + i), right)
        gathered = [torch.empty(10_000) for _ in range(size)]
        dist.all_gather(gathered, torch.full((10_000,), 100.0 * rank + i), async_op=True)
        kept.append(gathered)
        del gathered
        torch.full((40_000,), float("nan"))  # takes the memory of whatever was freed
    for i in range(50):
        x = torch.empty(40_000)
        dist.recv(x, left)
        assert (x == 100.0 * left + i).all(), (i, x)
    dist.barrier()
    for i, gathered in enumerate(kept):
        for r, part in enumerate(gathered):
            assert (part == 100.0 * r + i).all(), (i, r, part)
    return len(kept)


def _calls() -> bool:
    """Whether a thread that ran callbacks is there: it ends by itself, 100 ms after its last one at most."""
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            if (task / "comm").read_text() == "unisono-calls\n":
                return True
    return False


def _counts() -> tuple[int, int, int]:
    """Open descriptors, threads, and maps of shared memory of this process."""
    gc.collect()
    until = time.monotonic() + 10
    while _calls() and time.monotonic() < until:
        time.sleep(0.01)
    with open("/proc/self/maps") as maps:
        shared = sum("memfd:" in line for line in maps)
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), shared


def failures_leave_nothing(folder: str) -> list[tuple[int, int, int]]:
    """Groups that fail in a backward pass, one after the other, in processes that go on."""
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.destroy_process_group()
    counts = []
    for attempt in range(5):
        _join(rank, size, folder, f"meet{attempt}")
        net, model = _model()

        def train(net: Net = net, model: DistributedDataParallel = model, fails: bool = rank == attempt % size) -> None:
            _train(model, rank)  # the other may fail while our last step's gradients are on their way
            if fails:
                net.in_backward = lambda: _raise("on purpose")
            _train(model, rank)

        text = told(train)
        if rank == attempt % size:
            assert text == "ValueError: on purpose"
            dist.distributed_c10d._abort_process_group()
        else:
            assert f"rank {attempt % size}" in text, text
            dist.destroy_process_group()
        del net, model, train
        counts.append(_counts())
    _join(rank, size, folder, "last")
    return counts

"""torch CPU tensors, handed over by DLPack: in place, without a copy, also the dtypes that NumPy lacks."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import unisono
from harness import Pools

Group = Any
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed (tools/requirements-torch.txt)"
)


def reductions(world: Group) -> None:
    import torch

    rank, n = world.rank, world.size
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for count in (0, 1, 5, 1000, 70_001):
            x = torch.full((count,), float(rank + 1), dtype=dtype)
            address = x.data_ptr()
            world.all_reduce(x)
            assert x.data_ptr() == address and x.dtype == dtype
            assert (x == n * (n + 1) / 2).all()
            x = torch.full((count,), float(rank + 1), dtype=dtype)
            y = torch.zeros_like(x)
            world.all_reduce(x, "avg", out=y)
            assert (x == rank + 1).all() and torch.allclose(y.double(), torch.full_like(y, (n + 1) / 2).double())
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        x = torch.arange(100).to(dtype) % 7 + rank
        world.all_reduce(x, "max")
        assert torch.equal(x, torch.arange(100).to(dtype) % 7 + n - 1)
    flags = torch.tensor([rank == 0, False, True])
    world.all_reduce(flags, "bor")
    assert flags.tolist() == [True, False, True]


def others(world: Group) -> None:
    import torch

    rank, n = world.rank, world.size
    x = torch.full((2, 3), float(rank), dtype=torch.bfloat16)
    parts = world.all_gather(x)
    assert all(isinstance(part, torch.Tensor) and part.shape == x.shape and part.dtype == x.dtype for part in parts)
    assert [part[0, 0].item() for part in parts] == list(range(n))
    out = torch.zeros(n, 2, 3, dtype=torch.bfloat16)
    world.all_gather(x, out)
    assert torch.equal(out, torch.stack(parts))
    y = torch.zeros(2, 3, dtype=torch.bfloat16)
    world.scatter(out if rank == n - 1 else None, y, root=n - 1)
    assert torch.equal(y, x)
    z = world.all_to_all(torch.arange(n, dtype=torch.float32) + 10 * rank)
    assert z.tolist() == [10 * r + rank for r in range(n)]
    s = world.reduce_scatter(torch.ones(2 * n, dtype=torch.float16))
    assert s.tolist() == [n, n] and s.dtype == torch.float16
    world.broadcast(y, root=0)
    assert (y == 0).all()
    # NumPy and torch may meet, for only the memory counts.
    import numpy

    mixed = torch.ones(7) if rank % 2 else numpy.ones(7, numpy.float32)
    world.all_reduce(mixed)
    assert float(mixed.sum()) == 7 * n
    if n > 1:
        work = world.irecv(y, src=(rank - 1) % n)
        world.send(torch.full((6,), 1.0 + rank, dtype=torch.bfloat16), dst=(rank + 1) % n)
        work.wait()
        assert (y == 1 + (rank - 1) % n).all()


def layouts(world: Group) -> None:
    import torch

    rank, n = world.rank, world.size
    base = torch.arange(24.0).reshape(4, 6)
    for view in (base.t(), base[:, ::2], base[1:3, 2:], base[:, 3]):
        before = view.clone()
        world.all_reduce(view)
        assert torch.equal(view, before * n)
        view.copy_(before)
    work = world.all_reduce(base, async_op=True)
    work.wait()
    assert torch.equal(base, torch.arange(24.0).reshape(4, 6) * n)
    # A tensor may go while its operation runs.
    for _ in range(5):
        work = world.all_reduce(torch.ones(50_000), async_op=True)
    work.wait()
    assert rank < n


@pytest.mark.parametrize("function", [reductions, others, layouts], ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    ("ranks", "transport"), [(1, ""), (2, ""), pytest.param(4, "", marks=pytest.mark.long), (3, "tcp")]
)
def test_tensors(pools: Pools, ranks: int, transport: str, function: Any) -> None:
    pools(ranks, transport).run(function)


def test_refused() -> None:
    import torch

    world = unisono.Context(unisono.Config()).create_group(unisono.make_memory_store(), 0, 1)
    for tensor, message in {
        torch.zeros(3, requires_grad=True): "x .a torch.Tensor.*detach",
        torch.zeros(3, dtype=torch.complex64).conj(): "x is a lazily conjugated or negated view",
        torch.zeros(1).expand(3): "x has several indices for one element",
        torch.zeros(3, device="meta"): "x .a torch.Tensor.*meta",
        torch.zeros(3).to_sparse(): "x .a torch.Tensor",
    }.items():
        with pytest.raises(unisono.InvalidArgument, match=message):
            world.all_reduce(tensor)
    world.destroy()

"""What ranks do in test_collectives.py. Each function runs on all ranks of a world."""

# torch.distributed exports less to mypy than to its users.
# mypy: disable-error-code="attr-defined,no-untyped-call,union-attr,arg-type"

from __future__ import annotations

import torch
import torch.distributed as dist
import torch_reference as ref
from torch_reference import close, make, same


def _ranks() -> tuple[int, int]:
    return dist.get_rank(), dist.get_world_size()


def _finish(work: dist.Work | None, async_op: bool) -> None:
    assert (work is not None) == async_op
    if work is not None:
        work.wait()
        assert work.is_completed()


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype)
    return dtype


def all_reduce(dtype: str, async_op: bool) -> None:
    rank, n = _ranks()
    kind = _dtype(dtype)
    for shape in ref.SHAPES:
        for op in ref.ops(kind):
            x = make(kind, shape, rank)
            _finish(dist.all_reduce(x, ref.reduce_op(op), async_op=async_op), async_op)
            close(x, ref.reduced(op, [make(kind, shape, r) for r in range(n)]), op, kind, shape)


def reduce(dtype: str, async_op: bool) -> None:
    rank, n = _ranks()
    kind = _dtype(dtype)
    for root, op in enumerate(ref.ops(kind)):
        x = make(kind, (257,), rank)
        view = x[10:20]
        _finish(dist.reduce(x, root % n, ref.reduce_op(op), async_op=async_op), async_op)
        mine = make(kind, (257,), rank)
        expected = ref.reduced(op, [make(kind, (257,), r) for r in range(n)]) if rank == root % n else mine
        close(x, expected, op, kind, "root", root % n)
        close(view, expected[10:20], op, "view")


def reduce_scatter(dtype: str, async_op: bool) -> None:
    rank, n = _ranks()
    kind = _dtype(dtype)
    for op in ref.ops(kind):
        whole = ref.reduced(op, [make(kind, (n * 35,), r) for r in range(n)])
        x, out = make(kind, (n * 35,), rank), make(kind, (35,), 9)
        _finish(dist.reduce_scatter_tensor(out, x, ref.reduce_op(op), async_op=async_op), async_op)
        close(out, whole[rank * 35 : (rank + 1) * 35], op, kind)
        same(x, make(kind, (n * 35,), rank), "the input was written")
        sizes = [3 + 4 * r for r in range(n)]  # uneven, from a list
        parts = [make(kind, (size,), rank, seed=r) for r, size in enumerate(sizes)]
        out = make(kind, (sizes[rank],), 9)
        _finish(dist.reduce_scatter(out, parts, ref.reduce_op(op), async_op=async_op), async_op)
        close(out, ref.reduced(op, [make(kind, (sizes[rank],), r, seed=rank) for r in range(n)]), op, kind, "uneven")


def broadcast_and_gathers(dtype: str, async_op: bool) -> None:
    rank, n = _ranks()
    kind = _dtype(dtype)
    for shape in ref.SHAPES:
        for root in range(n):
            x = make(kind, shape, rank)
            _finish(dist.broadcast(x, root, async_op=async_op), async_op)
            same(x, make(kind, shape, root), "broadcast", kind, shape)
            mine, out = make(kind, shape, rank), [make(kind, shape, 9) for _ in range(n)]
            _finish(dist.gather(mine, out if rank == root else None, root, async_op=async_op), async_op)
            for r in range(n):
                same(out[r], make(kind, shape, r if rank == root else 9), "gather", kind, shape)
            parts = [make(kind, shape, r, seed=2) for r in range(n)]
            got = make(kind, shape, 9)
            _finish(dist.scatter(got, parts if rank == root else None, root, async_op=async_op), async_op)
            same(got, make(kind, shape, rank, seed=2), "scatter", kind, shape)
        out = [make(kind, shape, 9) for _ in range(n)]
        _finish(dist.all_gather(out, make(kind, shape, rank), async_op=async_op), async_op)
        for r in range(n):
            same(out[r], make(kind, shape, r), "all_gather", kind, shape)
        whole = make(kind, (n, *shape), 9)
        _finish(dist.all_gather_into_tensor(whole, make(kind, shape, rank), async_op=async_op), async_op)
        for r in range(n):
            same(whole[r], make(kind, shape, r), "all_gather_into_tensor", kind, shape)


def gather_single(async_op: bool) -> None:
    rank, n = _ranks()
    for kind in (torch.float32, torch.float8_e5m2, torch.complex64):
        for shape in ref.SHAPES:
            for root in range(n):
                for whole in (make(kind, (n, *shape), 9), make(kind, (*shape, n), 9).movedim(-1, 0)):  # one has strides
                    into = whole if rank == root else None
                    mine = make(kind, shape, rank)
                    _finish(dist.gather_single(mine, into, root, async_op=async_op), async_op)
                    for r in range(n if rank == root else 0):
                        got = whole[r].clone(memory_format=torch.contiguous_format)
                        same(got, make(kind, shape, r), "gather_single", kind, shape, root)
    if async_op:
        whole = torch.zeros(2 * n)
        future = dist.gather_single(torch.full((2,), rank + 1.0), whole, 1, async_op=True).get_future()
        assert torch.equal(future.wait()[0], torch.arange(1.0, n + 1).repeat_interleave(2)) or rank != 1


def gather_single_of_the_wrong_size() -> str:
    """Of the root's output: it alone sees that, and the others wait for it."""
    rank, n = _ranks()
    group = dist.new_group(list(range(n)))
    try:
        dist.gather_single(torch.ones(3), torch.zeros(4) if rank == 0 else None, 0, group=group)
    except RuntimeError as error:
        return str(error)
    return "nothing was raised"


def all_to_all(dtype: str, async_op: bool) -> None:
    rank, n = _ranks()
    kind = _dtype(dtype)
    for rows in (1, 0, 40_000):
        x, out = make(kind, (n * rows, 2), rank), make(kind, (n * rows, 2), 9)
        _finish(dist.all_to_all_single(out, x, async_op=async_op), async_op)
        for r in range(n):
            expected = make(kind, (n * rows, 2), r)[rank * rows : (rank + 1) * rows]
            same(out[r * rows : (r + 1) * rows], expected, "all_to_all_single", kind, rows)
    size = [[(3 * a + b) % 5 for b in range(n)] for a in range(n)]  # size[a][b] rows go from a to b, some of them none
    x = make(kind, (sum(size[rank]), 3), rank)
    out = make(kind, (sum(size[r][rank] for r in range(n)), 3), 9)
    _finish(dist.all_to_all_single(out, x, [size[r][rank] for r in range(n)], size[rank], async_op=async_op), async_op)
    wanted = [make(kind, (sum(size[r]), 3), r).split(size[r])[rank] for r in range(n)]
    for got, want in zip(out.split([size[r][rank] for r in range(n)]), wanted, strict=True):
        same(got, want, "uneven", kind)
    outs = [make(kind, (size[r][rank], 3), 9) for r in range(n)]
    _finish(dist.all_to_all(outs, list(x.split(size[rank])), async_op=async_op), async_op)
    for got, want in zip(outs, wanted, strict=True):
        same(got, want, "list", kind)


def uneven_all_gather() -> None:
    rank, n = _ranks()
    for sizes in ([5, 0, 9], [0, 0, 1], [100_000, 3, 50_000]):
        for flat in (False, True):
            memory = torch.zeros(sum(sizes[:n]))
            out = list(memory.split(sizes[:n])) if flat else [torch.zeros(s) for s in sizes[:n]]
            dist.all_gather(out, make(torch.float32, (sizes[rank],), rank))
            for r in range(n):
                same(out[r], make(torch.float32, (sizes[r],), r), sizes, flat)


def strided(async_op: bool) -> None:
    """Transposed, every second column, channels_last: the logical order counts, also when it differs by rank."""
    rank, n = _ranks()
    inputs = [make(torch.float32, (4, 6, 2, 2), r) for r in range(n)]

    def styled(style: int, values: torch.Tensor) -> torch.Tensor:
        if style == 0:
            return values.clone()
        if style == 1:
            return values.permute(3, 1, 2, 0).contiguous().permute(3, 1, 2, 0)
        if style == 2:
            return values.clone(memory_format=torch.channels_last)
        return torch.stack([values, values + 1], -1)[..., 0]

    for style in range(4):
        x = styled((style + rank) % 4, inputs[rank])
        _finish(dist.all_reduce(x, async_op=async_op), async_op)
        same(x, ref.reduced("SUM", inputs), "all_reduce", style)
        x = styled((style + rank) % 4, inputs[rank])
        _finish(dist.broadcast(x, 1, async_op=async_op), async_op)
        same(x, inputs[1], "broadcast", style)
        x = styled((style + rank) % 4, inputs[rank])
        _finish(dist.reduce(x, 0, async_op=async_op), async_op)
        same(x, inputs[rank] if rank else ref.reduced("SUM", inputs), "reduce", style)
        out = [styled((style + r) % 4, inputs[0]) for r in range(n)]
        _finish(dist.all_gather(out, styled(style, inputs[rank]), async_op=async_op), async_op)
        for r in range(n):
            same(out[r], inputs[r], "all_gather", style)
        whole = styled(style, torch.cat(inputs))
        part = styled((style + rank) % 4, inputs[0])
        _finish(dist.reduce_scatter_tensor(part, whole, async_op=async_op), async_op)
        same(part, n * inputs[rank], "reduce_scatter_tensor", style)
        peer = (rank + 1) % n, (rank - 1) % n
        work = dist.isend(styled(style, inputs[rank]), peer[0])
        x = styled((style + 1) % 4, inputs[0])
        dist.recv(x, peer[1])
        assert work is not None
        work.wait()
        same(x, inputs[peer[1]], "recv", style)


def coalesced(async_op: bool) -> None:
    rank, n = _ranks()
    shapes = [(3,), (2, 5), (), (0,)]
    for together in (False, True):
        tensors = [make(torch.float32, s, rank, seed=i) for i, s in enumerate(shapes)]
        if together:
            memory = torch.cat([t.reshape(-1) for t in tensors])
            tensors = [v.view(s) for v, s in zip(memory.split([t.numel() for t in tensors]), shapes, strict=True)]
        with dist._coalescing_manager(async_ops=async_op) as manager:
            for t in tensors:
                dist.all_reduce(t)
        if async_op:
            manager.wait()
        for i, shape in enumerate(shapes):
            same(tensors[i], ref.reduced("SUM", [make(torch.float32, shape, r, seed=i) for r in range(n)]), together)
    for inputs in ([(3,), (2, 5)], [(4,)]):
        mine = [make(torch.float32, s, rank, seed=i) for i, s in enumerate(inputs)]
        outs = [torch.zeros(n, *s) for s in inputs]
        with dist._coalescing_manager(async_ops=async_op) as manager:
            for out, t in zip(outs, mine, strict=True):
                dist.all_gather_into_tensor(out, t)
        if async_op:
            manager.wait()
        for i, s in enumerate(inputs):
            same(outs[i], torch.stack([make(torch.float32, s, r, seed=i) for r in range(n)]), "all_gather", i)
        wholes = [make(torch.float32, (n, *s), rank, seed=i) for i, s in enumerate(inputs)]
        parts = [torch.zeros(s) for s in inputs]
        with dist._coalescing_manager(async_ops=async_op) as manager:
            for part, whole in zip(parts, wholes, strict=True):
                dist.reduce_scatter_tensor(part, whole)
        if async_op:
            manager.wait()
        for i, s in enumerate(inputs):
            all_inputs = [make(torch.float32, (n, *s), r, seed=i)[rank] for r in range(n)]
            same(parts[i], ref.reduced("SUM", all_inputs), "reduce_scatter", i)


def sparse(async_op: bool) -> None:
    rank, n = _ranks()

    def entries(r: int) -> torch.Tensor:
        rows = torch.arange(r)  # rank 0 has none
        where = torch.stack([rows, (rows * 3) % 5])
        return torch.sparse_coo_tensor(where, torch.ones(r, 2) * (r + 1), (4, 5, 2))

    x = entries(rank)
    _finish(dist.all_reduce(x, async_op=async_op), async_op)
    same(x.to_dense(), sum((entries(r).to_dense() for r in range(n)), torch.zeros(4, 5, 2)), "sparse")


def premultiplied_by_a_tensor() -> None:
    rank, n = _ranks()
    x = make(torch.bfloat16, (33,), rank)
    dist.all_reduce(x, dist._make_nccl_premul_sum(torch.tensor([4.0])))
    same(x, sum((make(torch.bfloat16, (33,), r) * 4 for r in range(1, n)), make(torch.bfloat16, (33,), 0) * 4))


def nan_wins() -> None:
    rank, n = _ranks()
    for op in (dist.ReduceOp.MIN, dist.ReduceOp.MAX):
        for holder in range(n):
            x = torch.tensor([1.0, float("nan") if rank == holder else 2.0])
            dist.all_reduce(x, op)
            assert x[0] == 1 and x[1].isnan(), (op, holder, x)

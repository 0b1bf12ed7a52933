"""unisono.distributed's collectives: the programs that users of torch.distributed write, on NumPy and torch arrays."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import Pools
from harness.pool import Pool

Group = Any
WITH_TORCH = importlib.util.find_spec("torch") is not None


@pytest.fixture(scope="module")
def torch_pool() -> Iterator[Pool]:
    """Two ranks of their own: torch stays in a process that imported it."""
    pool = Pool(2, {})
    yield pool
    pool.close()


@pytest.fixture(params=["numpy-2", "numpy-4", "torch-2"])
def everywhere(request: pytest.FixtureRequest, pools: Pools) -> tuple[Any, str]:
    """A pool, and the kind of arrays to use there."""
    kind, ranks = request.param.split("-")
    if kind == "numpy":
        return pools(int(ranks)), kind
    if not WITH_TORCH:
        pytest.skip("torch is not installed")
    return request.getfixturevalue("torch_pool"), kind


def reductions(world: Group, place: str, kind: str) -> None:
    from harness.joined import Kind, joined, values

    make, n, rank = Kind(kind), world.size, world.rank
    total = n * (n + 1) // 2
    with joined(world, place) as dist:
        # reduce: the others' tensors, their views and what was computed from them stay.
        x = make.of([rank + 1])
        view, doubled = x[:], x * 2
        assert dist.reduce(x, 0, op=dist.ReduceOp.SUM) is None
        assert values(x) == values(view) == [total if rank == 0 else rank + 1]
        assert values(doubled) == [2 * (rank + 1)]
        # all_reduce sums unless told otherwise.
        x = make.of([rank + 1])
        assert dist.all_reduce(x) is None and values(x) == [total]
        for shape in ((), (3, 3), (5,)):
            x = make.zeros(*shape) + (rank + 1)
            x = make.of(values(x))
            dist.all_reduce(x)
            assert values(x) == values(make.zeros(*shape) + total)
        product = 1
        for i in range(n):
            product *= i + 1
        for op, expected in (
            (dist.ReduceOp.MAX, [n, 2 * n, 3 * n]),
            (dist.ReduceOp.MIN, [1, 2, 3]),
            (dist.ReduceOp.AVG, [total / n * i for i in (1, 2, 3)]),
            (dist.ReduceOp.PRODUCT, [product, product * 2**n, product * 3**n]),
        ):
            x = make.of([rank + 1, 2 * (rank + 1), 3 * (rank + 1)])
            dist.all_reduce(x, op=op)
            assert values(x) == expected, (op, x)
        for op, start in ((dist.ReduceOp.BAND, -1), (dist.ReduceOp.BOR, 0), (dist.ReduceOp.BXOR, 0)):
            x = make.of([rank + 1, 12], "int32")
            dist.all_reduce(x, op)
            expected = [start, start]
            for i in range(n):
                for k, value in enumerate((i + 1, 12)):
                    expected[k] = {"BAND": int.__and__, "BOR": int.__or__, "BXOR": int.__xor__}[op.name](
                        expected[k], value
                    )
            assert values(x) == expected
        root = n - 1
        x = make.of([rank + 1.0])
        dist.reduce(x, group_dst=root, op=dist.ReduceOp.AVG)
        assert values(x) == [total / n if rank == root else rank + 1]


def test_reductions(everywhere: tuple[Any, str], tmp_path: Path) -> None:
    pool, kind = everywhere
    pool.run(reductions, place=str(tmp_path / "store"), kind=kind)


def movements(world: Group, place: str, kind: str) -> None:
    from harness.joined import Kind, joined, values

    make, n, rank = Kind(kind), world.size, world.rank
    with joined(world, place) as dist:
        for root in {0, n - 1}:
            x = make.of([rank, 7])
            dist.broadcast(x, root)
            assert values(x) == [root, 7]
            parts = [make.zeros(2) for _ in range(n)]
            assert dist.gather(make.of([rank, rank * 2]), parts if rank == root else None, dst=root) is None
            assert [values(p) for p in parts] == [[i, i * 2] if rank == root else [0, 0] for i in range(n)]
            out = make.zeros(2)
            dist.scatter(out, [make.of([i, i + 0.5]) for i in range(n)] if rank == root else None, src=root)
            assert values(out) == [rank, rank + 0.5]
        parts = [make.zeros(3) for _ in range(n)]
        dist.all_gather(parts, make.of([rank, 1, 2]))
        assert [values(p) for p in parts] == [[i, 1, 2] for i in range(n)]
        # Sizes that differ by rank, an entry that is the input, entries that are rows of one array,
        # scalars.
        parts = [make.zeros(i + 1) for i in range(n)]
        dist.all_gather(parts, make.of([float(rank)] * (rank + 1)))
        assert [values(p) for p in parts] == [[i] * (i + 1) for i in range(n)]
        parts = [make.of([rank, i]) for i in range(n)]
        dist.all_gather(parts, parts[rank])
        assert [values(p) for p in parts] == [[i, i] for i in range(n)]
        rows = make.zeros(n, 2)
        dist.all_gather(list(rows), make.of([rank, 5]))
        assert values(rows) == [[i, 5] for i in range(n)]
        columns = make.zeros(2, n)
        dist.all_gather([columns[:, i] for i in range(n)], make.of([rank, 5]))
        assert values(columns) == [list(range(n)), [5] * n]
        parts = [make.zeros() for _ in range(n)]
        dist.all_gather(parts, make.of(rank + 0.5))
        assert [values(p) for p in parts] == [i + 0.5 for i in range(n)]
        for both in (dist.all_gather_into_tensor, dist.all_gather_single):
            out = make.zeros(n, 2)
            both(out, make.of([rank, -rank]))
            assert values(out) == [[i, -i] for i in range(n)]
        out = make.zeros(2)
        dist.reduce_scatter(out, [make.of([i, rank]) for i in range(n)])
        assert values(out) == [rank * n, n * (n - 1) / 2]
        out = make.zeros(rank + 1)
        dist.reduce_scatter(out, [make.of([float(i)] * (i + 1)) for i in range(n)], op=dist.ReduceOp.MAX)
        assert values(out) == [rank] * (rank + 1)
        out = make.zeros(1)
        dist.reduce_scatter_tensor(out, make.of([[float(i)] for i in range(n)]))
        assert values(out) == [rank * n]
        x = make.of([[rank, i] for i in range(n)])
        dist.all_reduce(x[:, 1])  # not contiguous: through a copy
        assert values(x) == [[rank, i * n] for i in range(n)]


def test_movements(everywhere: tuple[Any, str], tmp_path: Path) -> None:
    pool, kind = everywhere
    pool.run(movements, place=str(tmp_path / "store"), kind=kind)


def exchanges(world: Group, place: str, kind: str) -> None:
    from harness.joined import Kind, joined, values

    make, n, rank = Kind(kind), world.size, world.rank
    with joined(world, place) as dist:
        outs = [make.zeros(2) for _ in range(n)]
        dist.all_to_all(outs, [make.of([rank, i]) for i in range(n)])
        assert [values(o) for o in outs] == [[i, rank] for i in range(n)]
        outs = [make.zeros(i + rank) for i in range(n)]  # rank i sends i + j elements to rank j
        dist.all_to_all(outs, [make.of([float(rank)] * (rank + i)) for i in range(n)])
        assert [values(o) for o in outs] == [[i] * (i + rank) for i in range(n)]
        out = make.zeros(n)
        dist.all_to_all_single(out, make.of([rank * 10.0 + i for i in range(n)]))
        assert values(out) == [i * 10 + rank for i in range(n)]
        # Uneven: rank i sends j + 1 rows to rank j.
        rows = make.of([[rank, j] for j in range(n) for _ in range(j + 1)])
        out = make.zeros(n * (rank + 1), 2)
        dist.all_to_all_single(out, rows, [rank + 1] * n, [j + 1 for j in range(n)])
        assert values(out) == [[i, rank] for i in range(n) for _ in range(rank + 1)]
        tensors = [make.of([rank]), make.of([1, 2])]
        dist.all_reduce_coalesced(tensors)
        assert [values(t) for t in tensors] == [[n * (n - 1) / 2], [n, 2 * n]]
        lists = [[make.zeros(1), make.zeros(2)] for _ in range(n)]
        future = dist.all_gather_coalesced(lists, [make.of([rank]), make.of([rank, 1])], async_op=True)
        future.wait()
        assert [[values(t) for t in each] for each in lists] == [[[i], [i, 1]] for i in range(n)]
        dist.barrier()
        assert dist.barrier(async_op=True).wait() is True
        dist.monitored_barrier()


def test_exchanges(everywhere: tuple[Any, str], tmp_path: Path) -> None:
    pool, kind = everywhere
    pool.run(exchanges, place=str(tmp_path / "store"), kind=kind)


def of_torch(world: Group, place: str) -> None:
    import torch
    from harness.joined import joined

    n, rank = world.size, world.rank
    with joined(world, place) as dist:
        weight = torch.full((3,), float(rank), requires_grad=True)
        loss = (weight * 2).sum()
        dist.all_reduce(loss)  # as torch's functions: what requires gradients, too
        assert loss.item() == 6 * n * (n - 1) / 2 and loss.requires_grad
        dist.broadcast(weight, n - 1)
        assert weight.tolist() == [n - 1] * 3 and weight.requires_grad
        if rank == 0:
            dist.send(weight, 1)
        elif rank == 1:
            y = torch.nn.Parameter(torch.zeros(3))
            assert dist.recv(y) == 0 and y.tolist() == [n - 1] * 3
        for dtype in (torch.bfloat16, torch.float16, torch.complex64, torch.bool, torch.int16):
            x = torch.ones(3).to(dtype)
            dist.all_reduce(x)
            assert x.tolist() == (torch.ones(3) * n).to(dtype).tolist()
        x = torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last) * (rank + 1)
        dist.all_reduce(x)
        assert x.unique().tolist() == [n * (n + 1) / 2]
        eighth = torch.full((4,), rank + 1.0).to(torch.float8_e4m3fn)
        dist.broadcast(eighth, 1)
        assert eighth.float().tolist() == [2] * 4
        for wrong, words in (
            (torch.ones(3).to_sparse(), "strided"),
            (torch.ones(1).expand(3), "several indices for one element"),
            (torch.ones(3, device="meta"), "meta"),
        ):
            try:
                dist.all_reduce(wrong)
            except dist.DistError as error:
                assert words in str(error), error
            else:
                raise AssertionError(words)
        np_parts = [np.zeros(2, np.float32) for _ in range(n)]
        dist.all_gather(np_parts, torch.tensor([rank, 1.0]))  # mixed
        assert [p.tolist() for p in np_parts] == [[i, 1.0] for i in range(n)]


@pytest.mark.skipif(not WITH_TORCH, reason="torch is not installed")
def test_what_only_torch_has(torch_pool: Pool, tmp_path: Path) -> None:
    torch_pool.run(of_torch, place=str(tmp_path / "store"))


def hierarchical(world: Group, place: str) -> list[float]:
    from harness.joined import joined

    rank = world.rank
    with joined(world, place) as dist:
        local, both = dist.new_subgroups(2)
        assert dist.get_process_group_ranks(local) == [rank // 2 * 2, rank // 2 * 2 + 1]
        other = both[1 - rank // 2]
        assert other == dist.GroupMember.NON_GROUP_MEMBER
        x = np.array([rank + 1.0])
        dist.all_reduce(x, group=local)
        leaders = None
        if rank % 2 == 0:  # by its members only
            leaders = dist.new_group([0, 2], use_local_synchronization=True)
            dist.all_reduce(x, group=leaders)
        dist.broadcast(x, group_src=0, group=local)
        # A later group of all, and one that is not sorted.
        everybody = dist.new_group()
        y = x.copy()
        dist.all_reduce(y, dist.ReduceOp.MIN, everybody)
        assert y[0] == x[0]
        turned = dist.new_group([3, 1, 0, 2], sort_ranks=False)
        assert [dist.get_group_rank(turned, i) for i in (3, 1, 0, 2)] == [0, 1, 2, 3]
        assert dist.get_global_rank(turned, 0) == 3 and dist.get_rank(turned) == [2, 1, 3, 0][rank]
        z = np.array([rank])
        dist.broadcast(z, src=1, group=turned)
        assert z[0] == 1
        # Outside a group: a warning and nothing, as in torch.
        import warnings

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert dist.all_reduce(y, group=other) is None and dist.recv(y, src=0, group=other) == -1
            assert dist.isend(y, dst=0, group=other) is None
            assert dist.get_rank(other) == dist.get_world_size(other) == -1
        assert len(caught) == 3 and "does not belong to the given group" in str(caught[0].message)
        split = dist.split_group(split_ranks=[[0, 3], [1]])
        assert (None if split is None else split.ranks) == {0: (0, 3), 1: (1,), 3: (0, 3)}.get(rank)
        if leaders is not None:
            dist.destroy_process_group(leaders)
    return [float(v) for v in x]


def test_two_levels_of_groups(pools: Pools, tmp_path: Path) -> None:
    assert pools(4).run(hierarchical, place=str(tmp_path / "store")) == [[10.0]] * 4


def refused(world: Group, place: str) -> None:
    from harness.joined import joined

    with joined(world, place) as dist:
        n = world.size
        fractions, whole = np.ones(4), np.ones(4, np.int64)
        readonly = np.ones(4)
        readonly.flags.writeable = False
        before = dist.group.WORLD.core.sequence_number
        call: Any
        for call, words in (
            (lambda: dist.all_reduce(whole, op=dist.ReduceOp.AVG), "AVG of integers"),
            (lambda: dist.reduce_scatter(whole[:1], [whole[:1]] * n, op=dist.ReduceOp.AVG), "AVG of integers"),
            (lambda: dist.all_reduce(fractions, op=dist.ReduceOp.BAND), "band is not defined for f64"),
            (lambda: dist.all_reduce(fractions, op="mean"), "op is 'mean'"),
            (lambda: dist.all_reduce(readonly), "read-only"),
            (lambda: dist.all_reduce([1.0]), "x is a list"),
            (lambda: dist.reduce(fractions), "Must specify global_rank or group_rank"),
            (lambda: dist.broadcast(fractions, 0, group_src=0), "Can't specify both"),
            (lambda: dist.broadcast(fractions, 7), "Global rank 7 is not part of"),
            (lambda: dist.all_gather([fractions] * n, fractions), "are the same memory"),
            (lambda: dist.all_gather([fractions], fractions), "is a list of 1 arrays"),
            (lambda: dist.all_gather([np.ones(4), np.ones(4, "f")], fractions), "elements of type"),
            (lambda: dist.scatter(fractions, src=world.rank), "must be specified on source"),
            (lambda: dist.gather(fractions, [fractions] * n, dst=1 - world.rank), "must NOT be specified"),
            (lambda: dist.all_to_all_single(fractions, fractions, [1] * n), "output_split_sizes is"),
            (lambda: dist.send(fractions, world.rank), "should not be the same as the rank"),
            (lambda: dist.batch_isend_irecv([]), "at least one P2POp"),
            (lambda: dist.P2POp(dist.send, fractions, 0), "Invalid ``op``"),
            (lambda: dist.all_reduce(fractions, group="world"), "group is a str"),
            (lambda: dist.new_group([0, 0]), "duplicate"),
            (lambda: dist.new_group([9]), "Rank 9 is out of range"),
            (lambda: dist.barrier(device_ids=[0]), "device_ids"),
            (lambda: dist.init_process_group(), "twice"),
        ):
            try:
                call()
            except dist.DistBackendError as error:
                assert words in str(error), (words, error)
                assert isinstance(error, ValueError) and isinstance(error, RuntimeError)
            else:
                raise AssertionError(f"{words}: no error")
        for call in (
            lambda: dist.all_gather(fractions, fractions),
            lambda: dist.all_reduce(3.5),
            lambda: dist.reduce(np.float64(1), 0),
            lambda: dist.new_group(timeout=5),
            lambda: dist.barrier(timeout=1.5),
        ):
            try:
                call()
            except TypeError as error:
                assert "Expected" in str(error)
            else:
                raise AssertionError("no TypeError")
        assert dist.group.WORLD.core.sequence_number == before  # nothing was sent
        dist.all_reduce(fractions)
        assert fractions.tolist() == [n] * 4 and readonly.tolist() == [1] * 4
    try:
        dist.get_rank()
    except ValueError as error:
        assert "Default process group has not been initialized" in str(error)
    else:
        raise AssertionError("no error")


def test_what_is_refused(pools: Pools, tmp_path: Path) -> None:
    pools(2).run(refused, place=str(tmp_path / "store"))

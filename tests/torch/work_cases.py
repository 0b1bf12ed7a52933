"""What ranks do in test_work.py: asynchronous operations, futures, messages, groups. Each runs on all ranks."""

# torch.distributed exports less to mypy than to its users.
# mypy: disable-error-code="attr-defined,no-untyped-call,union-attr,arg-type"

from __future__ import annotations

import contextlib
import math
import os
import threading
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch_reference import make, same

CPU = torch.device("cpu")


def _raises(what: Any, *words: str) -> str:
    """Call it; the text of the RuntimeError that it must raise, in which all words must be."""
    try:
        what()
    except RuntimeError as error:
        text = str(error)
        for word in words:
            assert word in text, f"{word!r} is not in {text!r}"
        return text
    raise AssertionError(f"nothing was raised; {words} were expected")


def _names() -> list[str]:
    """The names of this process's threads that are ours."""
    found = []
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/comm") as file:  # it may end just now
            found.append(file.read().strip())
    return [name for name in found if name.startswith("unisono")]


def many_at_once() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    tensors = [make(torch.float32, (1 + 997 * i,), rank, seed=i) for i in range(40)]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    for i in (*range(20, 40), *range(20)):  # in another order
        work = works[i]
        assert work is not None and work.wait()
        assert work.is_completed() and work.is_success() and work.exception() is None
        same(tensors[i], sum((make(torch.float32, (1 + 997 * i,), r, seed=i) for r in range(1, n)),
                             make(torch.float32, (1 + 997 * i,), 0, seed=i)))  # fmt: skip


def futures() -> None:
    n = dist.get_world_size()
    x = torch.ones(1000)
    work = dist.all_reduce(x, async_op=True)
    assert work is not None
    future = work.get_future()
    assert future.wait()[0].data_ptr() == x.data_ptr()
    assert x[0] == n and work.is_completed() and future.done()
    again = work.get_future().then(lambda f: f.value()[0] * 2).wait()
    assert again[5] == 2 * n
    assert int(work.get_future_result().wait()) == 0


def futures_hold_what_nccls_do() -> None:
    """A list of the results; of all_gather a list with one tensor, all of them stacked (torch's quantization hooks)."""
    rank, n = dist.get_rank(), dist.get_world_size()

    def value(work: Any) -> list[torch.Tensor]:
        held: list[torch.Tensor] = work.get_future().wait()
        assert isinstance(held, list) and all(isinstance(t, torch.Tensor) for t in held), held
        return held

    def is_(held: list[torch.Tensor], *results: torch.Tensor) -> None:
        assert len(held) == len(results)
        assert all(a.shape == b.shape and torch.equal(a, b) for a, b in zip(held, results, strict=True)), held

    x = torch.full((2, 3), float(rank))
    parts = [torch.zeros(2, 3) for _ in range(n)]
    ranks = [torch.full((2, 3), float(r)) for r in range(n)]
    is_(value(dist.all_gather(parts, x, async_op=True)), torch.stack(ranks))
    adjoining = list(torch.zeros(n, 2, 3).unbind())
    held = value(dist.all_gather(adjoining, x, async_op=True))
    is_(held, torch.stack(ranks))
    assert held[0].data_ptr() == adjoining[0].data_ptr()
    with torch.inference_mode():
        is_(value(dist.all_gather([torch.zeros(3, 2).t() for _ in range(n)], x, async_op=True)), torch.stack(ranks))
    uneven = [torch.zeros(r + 1) for r in range(n)]
    is_(value(dist.all_gather(uneven, torch.ones(rank + 1), async_op=True)), *(torch.ones(r + 1) for r in range(n)))
    whole = torch.zeros(n * 2, 3)
    is_(value(dist.all_gather_into_tensor(whole, x, async_op=True)), torch.cat(ranks))
    is_(value(dist.gather(x, parts if rank == 0 else None, 0, async_op=True)), *(ranks if rank == 0 else []))
    out = torch.zeros(2, 3)
    is_(value(dist.scatter(out, ranks if rank == 0 else None, 0, async_op=True)), x)
    is_(value(dist.reduce_scatter(out, [torch.ones(2, 3)] * n, async_op=True)), torch.full((2, 3), float(n)))
    is_(value(dist.reduce_scatter_tensor(out, torch.ones(2 * n, 3), async_op=True)), torch.full((2, 3), float(n)))
    is_(value(dist.all_to_all(parts, [x] * n, async_op=True)), *ranks)
    is_(value(dist.all_to_all_single(whole, torch.cat([x] * n), async_op=True)), torch.cat(ranks))
    is_(value(dist.broadcast(x.clone(), 1, async_op=True)), ranks[1])
    is_(value(dist.reduce(torch.ones(4) * (rank == 0), 0, async_op=True)), torch.ones(4) * (rank == 0))
    is_(value(dist.all_reduce(torch.ones(4), async_op=True)), torch.full((4,), float(n)))


def results_come_in_the_callers_mode() -> None:
    """Whoever copies them, and whoever runs callbacks: tensors of inference mode may be changed only in that mode."""
    n = dist.get_world_size()
    modes: list[tuple[bool, bool]] = []
    another = threading.Event()

    def change(future: Any) -> float:
        modes.append((torch.is_inference_mode_enabled(), torch.is_grad_enabled()))
        if threading.current_thread() is not threading.main_thread():
            another.set()
        return float(future.value()[0].mul_(2.0)[0, 0])

    for _ in range(50):
        with torch.inference_mode():
            tensors = [torch.ones(600, 1000).t() for _ in range(3)]
            works: list[Any] = [dist.all_reduce(t, async_op=True) for t in tensors]
            doubled = works[2].get_future().then(change)
        assert doubled.wait() == 2 * n
        works[0].wait()
        assert tensors[0][5, 5] == n
        while not works[1].is_completed():
            pass
        assert works[1].exception() is None and tensors[1][5, 5] == n
        with torch.no_grad():
            plain = torch.ones(600, 1000).t()
            waited = dist.all_reduce(plain, async_op=True).get_future().then(change)
        assert waited.wait() == 2 * n
    assert set(modes) == {(True, False), (False, False)}, set(modes)
    assert another.is_set()  # else this has shown nothing


def messages_come_in_the_callers_mode() -> None:
    rank = dist.get_rank()
    for _ in range(20):
        with torch.inference_mode():
            x = torch.full((600, 500), float(rank)).t()
            if rank == 1:
                work: Any = dist.isend(x.contiguous(), 0)
            elif rank == 0:
                work = dist.irecv(x, 1)
            else:
                continue
        arrived = work.get_future().then(lambda f: float(f.value()[0][3, 3])).wait()
        work.wait()
        assert arrived == 1.0 and x[3, 3] == 1.0


def futures_of_what_only_the_operation_holds() -> None:
    """Asked for just when the operation ends and frees its tensors, which needs Python's lock."""
    n = dist.get_world_size()
    for i in range(1500):
        out = [torch.zeros(300) for _ in range(n)]
        work = dist.all_gather(out, torch.full((300,), float(i)), async_op=True)
        assert work is not None
        for _ in range(i % 7 * 20):
            pass
        assert work.get_future().wait()[0][n - 1][299] == i


def callbacks_may_block() -> None:
    """One that waits for another collective, issued in it; and one that does not end, beside which others run."""
    n = dist.get_world_size()
    x = torch.ones(1000)
    first = dist.all_reduce(x, async_op=True)
    assert first is not None

    def more(future: Any) -> torch.Tensor:
        y: torch.Tensor = future.value()[0].clone()
        dist.all_reduce(y)
        work = dist.all_reduce(y, async_op=True)
        assert work is not None
        work.wait()
        return y

    assert first.get_future().then(more).wait()[0] == n**3
    gate = threading.Event()
    # Large enough not to be done before the callback is there: that would run it here.
    blocked = dist.all_reduce(torch.ones(5_000_000), async_op=True)
    assert blocked is not None
    ran_in: list[int] = []

    def wait_at_gate(_: Any) -> None:
        ran_in.append(threading.get_native_id())
        assert gate.wait(30)

    future = blocked.get_future()
    late = future.done()
    if not late:
        end = future.then(wait_at_gate)
    z = torch.ones(2_000_000)
    other = dist.all_reduce(z, async_op=True)
    assert other is not None
    other.get_future().then(lambda f: f.value()).wait()
    blocked.wait()
    assert z[0] == n
    gate.set()
    if not late:
        end.wait()
        with open(f"/proc/self/task/{threading.get_native_id()}/comm"):
            assert ran_in[0] != threading.get_native_id()


def dropped_work_goes_on() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % n, (rank - 1) % n
    for i in range(30):
        dist.isend(torch.full((50_000,), float(rank + i)), right)  # the tensor and the Work are dropped at once
        x = torch.zeros(50_000)
        dist.recv(x, left)
        assert (x == left + i).all()
    t = torch.ones(6, 2).t()  # staged: it arrives although nobody waits for the Work
    dist.all_reduce(t, async_op=True)
    dist.barrier()
    assert (t == n).all(), t


def barriers_complete_what_came_before() -> None:
    """What a program reads behind a barrier is there, though it has waited for nothing else: as with Gloo."""
    rank, size, count = dist.get_rank(), dist.get_world_size(), 200_000
    for async_op in (False, True):
        gathered = [[torch.zeros(count) for _ in range(size)] for _ in range(20)]
        for i, parts in enumerate(gathered):
            dist.all_gather(parts, torch.full((count,), float(i + rank + 1)), async_op=True)
        work: Any = dist.barrier(async_op=async_op)
        if work is not None:
            work.wait()
        for i, parts in reversed(list(enumerate(gathered))):  # the last one is copied last
            for r, part in enumerate(parts):
                assert (part == float(i + r + 1)).all(), (i, r)


def messages() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        got = set()
        for _ in range(1, n):
            x = torch.zeros(5, dtype=torch.int16)
            source = dist.recv(x, tag=7)
            assert (x == source).all(), (x, source)
            got.add(source)
        assert got == set(range(1, n))
    else:
        dist.send(torch.full((5,), rank, dtype=torch.int16), 0, tag=7)
    right, left = (rank + 1) % n, (rank - 1) % n
    outs = [torch.zeros(4 + tag) for tag in range(3)]
    ops = [dist.P2POp(dist.irecv, outs[tag], left, tag=tag) for tag in (2, 0, 1)]
    ops += [dist.P2POp(dist.isend, torch.full((4 + tag,), rank + tag / 10), right, tag=tag) for tag in (0, 1, 2)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    for tag in range(3):
        assert torch.allclose(outs[tag], torch.full((4 + tag,), left + tag / 10)), (tag, outs[tag])
    # A receive that waits does not hold up a collective of the same group.
    pending = dist.irecv(torch.zeros(2), left, tag=9)
    x = torch.ones(300_000)
    dist.all_reduce(x)
    assert x[0] == n
    dist.send(torch.zeros(2), right, tag=9)
    assert pending is not None
    pending.wait()
    _raises(lambda: dist.distributed_c10d._get_default_group().send([torch.zeros(1)], rank, 0), "itself")


def threads_come_and_go() -> None:
    """Blocking calls need only the one that rests; asynchronous ones the progress thread; callbacks one for a while."""
    for _ in range(3):
        work = dist.all_reduce(torch.ones(100_000), async_op=True)
        assert work is not None
        work.get_future().then(lambda f: f.value()).wait()
    dist.all_reduce(torch.ones(100_000))
    clock = threading.Event()
    for _ in range(100):
        if len(_names()) <= 2:
            break
        clock.wait(0.05)
    assert sorted(_names()) in (["unisono", "unisono-rests"], ["unisono"]), _names()


def groups() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    for members in ([0, 1], [2, 1], [0, 2], [1]):
        group = dist.new_group(members)
        x = torch.tensor([float(rank)])
        dist.all_reduce(x, group=group)
        assert x.item() == (sum(members) if rank in members else rank)
        if rank in members:
            out = [torch.zeros(1) for _ in members]
            dist.all_gather(out, torch.tensor([float(rank)]), group=group)
            assert [t.item() for t in out] == sorted(members)
            dist.broadcast(x, src=members[0], group=group)
            dist.destroy_process_group(group)
    if rank != 1:  # made by its members only; the other ranks go on
        alone = dist.new_group([0, 2], use_local_synchronization=True)
        x = torch.tensor([1.0])
        dist.all_reduce(x, group=alone)
        assert x.item() == 2
    dist.barrier()
    y = torch.ones(1)
    dist.all_reduce(y)
    assert y.item() == n


def split_group() -> None:
    rank = dist.get_rank()
    world = dist.distributed_c10d._get_default_group()
    part = world.split_group([0, 2], timeout=timedelta(seconds=30), group_name="half", group_desc="for a test")
    if rank == 1:
        assert part is None
    else:
        x = torch.tensor([rank + 1.0])
        part.allreduce([x]).wait()
        assert x.item() == 4
        assert part._get_backend(CPU).options.global_ranks_in_group == [0, 2]
    dist.barrier()


def refusals() -> None:
    """The caller's mistakes are named before anything is sent: the group goes on."""
    rank, n = dist.get_rank(), dist.get_world_size()
    world = dist.distributed_c10d._get_default_group()
    i = torch.ones(3, dtype=torch.int32)
    _raises(lambda: dist.all_reduce(i > 0, dist.ReduceOp.AVG), "AVG is not defined for Bool", "Nothing was sent")
    _raises(lambda: dist.all_reduce(torch.ones(3), dist.ReduceOp.BAND), "BAND is not defined for Float")
    _raises(lambda: world.allreduce([torch.ones(3, dtype=torch.complex64)],
                                    _options(dist.ReduceOp.MAX)), "MAX is not defined for complex")  # fmt: skip
    _raises(lambda: dist.all_reduce(torch.ones(3).to(torch.float8_e5m2)), "can be moved but not reduced")
    _raises(lambda: dist.all_reduce(torch.ones(1).expand(5)), "share memory")
    _raises(lambda: dist.all_gather_into_tensor(torch.ones(3 * n + 1), torch.ones(3)), "times as many")
    _raises(lambda: dist.all_gather([torch.ones(3)] * (n + 1), torch.ones(3)), f"{n} are needed")
    _raises(lambda: dist.all_to_all_single(torch.ones(n + 1), torch.ones(n + 1)), "cannot share equally")
    elsewhere: Any = world._get_backend(CPU)
    _raises(lambda: elsewhere.allreduce([torch.ones(3, device="meta")]), "cpu:unisono,cuda:nccl")
    overlapping = torch.zeros(2 * n)
    if n > 1 and rank == 0:
        _raises(lambda: dist.reduce_scatter_tensor(overlapping[n - 1 : n], overlapping[:n]), "overlap")
    dist.barrier()


def _options(op: Any) -> Any:
    options = dist.AllreduceOptions()
    options.reduceOp = op
    return options


def profiled(async_op: bool) -> list[tuple[str, list[list[int]], bool]]:
    """Names, shapes and whether they are asynchronous, of our events in the profiler's trace."""
    rank, n = dist.get_rank(), dist.get_world_size()
    x, whole = torch.ones(4, 2), torch.ones(4 * n, 2)

    def done(work: Any) -> None:
        if work is not None:
            work.wait()

    with torch.autograd.profiler.profile(record_shapes=True) as trace:
        done(dist.all_reduce(x, async_op=async_op))
        done(dist.broadcast(x, 0, async_op=async_op))
        done(dist.reduce(x, 0, async_op=async_op))
        done(dist.all_gather([torch.ones(4, 2) for _ in range(n)], x, async_op=async_op))
        done(dist.reduce_scatter_tensor(x, whole, async_op=async_op))
        done(dist.all_to_all_single(whole, whole.clone(), async_op=async_op))
        done(dist.isend(x, (rank + 1) % n))
        done(dist.irecv(x, (rank - 1) % n))
    ours = [event for event in trace.function_events if event.name.startswith("unisono:")]
    return [(event.name, event.input_shapes, event.is_async) for event in ours]


def numbers_and_options() -> str:
    import copy

    backend: Any = dist.distributed_c10d._get_default_group()._get_backend(CPU)
    before = backend._get_sequence_number_for_group()
    dist.all_reduce(torch.ones(2))
    work: Any = dist.all_reduce(torch.ones(2), async_op=True)
    work.wait()
    assert backend._get_sequence_number_for_group() == before + 2
    options = copy.deepcopy(backend.options)
    assert options._timeout == backend.options._timeout and options is not backend.options
    assert backend.get_error() == 0
    return str(backend.transport)


def forms() -> None:
    """A group's methods with a tensor, a root, an operation or a time-out in place of c10d's options."""
    rank, n = dist.get_rank(), dist.get_world_size()
    group: Any = dist.group.WORLD
    limit = timedelta(seconds=50)

    def is_(x: torch.Tensor, value: float) -> None:
        assert (x == value).all(), (x, value)

    def mine() -> torch.Tensor:
        return torch.full((3,), rank + 1.0)

    x, y, z = mine(), mine(), mine()
    group.allreduce(x).wait()
    group.allreduce(y, dist.ReduceOp.MAX).wait()
    group.allreduce([z], op=dist.ReduceOp.MIN, timeout=limit).wait()
    is_(x, n * (n + 1) / 2)
    is_(y, n)
    is_(z, 1)
    x, y = mine(), mine()
    group.broadcast(x, 1).wait()
    group.broadcast(tensor=y, root=n - 1, timeout=limit).wait()
    is_(x, 2)
    is_(y, n)
    x = mine()
    group.reduce(x, 1, dist.ReduceOp.PRODUCT).wait()
    is_(x, math.factorial(n) if rank == 1 else rank + 1)
    parts = [torch.zeros(3) for _ in range(n)]
    group.allgather(parts, mine(), timeout=limit).wait()
    for r, part in enumerate(parts):
        is_(part, r + 1)
    own = torch.zeros(3)
    group.gather(parts if rank == 1 else [], mine(), root=1).wait()
    group.scatter(own, parts if rank == 1 else [], 1).wait()
    is_(own, rank + 1)
    group.reduce_scatter(own, [torch.full((3,), float(r)) for r in range(n)], dist.ReduceOp.SUM).wait()
    is_(own, rank * n)
    whole, sent = torch.zeros(n), torch.full((n,), float(rank))
    group.alltoall_base(whole, sent, [], [], timeout=limit).wait()
    assert whole.tolist() == list(range(n))
    group.alltoall(list(whole.split(1)), list(sent.split(1))).wait()
    group._allgather_base(output=whole, input=torch.full((1,), float(rank))).wait()
    assert whole.tolist() == list(range(n))
    group._reduce_scatter_base(torch.zeros(1), whole).wait()
    group.barrier(timeout=limit).wait()
    group.barrier(limit).wait()
    for wrong in (lambda: group.allreduce(), lambda: group.barrier(root=0), lambda: group.broadcast(x, 0, limit, 7)):
        try:
            wrong()
        except TypeError:
            continue
        raise AssertionError("nothing was raised")

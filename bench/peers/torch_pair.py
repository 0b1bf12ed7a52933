"""torch.distributed over unisono and over Gloo, in the same processes by turns: what disturbs one disturbs the other.

usage: torch_pair.py collectives SECONDS BYTES...
       torch_pair.py ddp STEPS MIB...
with RANK, WORLD_SIZE and INIT_FILE in the environment. Prints a line of JSON for each row.
"""

import copy
import json
import os
import statistics
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed import fake_pg  # noqa: F401  # the back end "fake"

WARMUP, TURNS = 2, 6
TINY = 8  # bytes where what torch itself takes counts
ROOTED = ("broadcast", "reduce", "gather", "scatter")  # a rank may run ahead of the others: they meet after each call
Group = dist.ProcessGroup | None


def make_calls(size: int, group: Group) -> dict[str, Callable[[], object]]:
    """Every collective on f32 tensors whose larger one has `size` bytes."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    count = max(ranks, size // 4 // ranks * ranks)
    whole, other, part = torch.ones(count), torch.ones(count), torch.ones(count // ranks)
    parts = list(other.chunk(ranks)) if rank == 0 else None

    def send_and_return() -> None:
        for source in (0, 1):
            if rank == source:
                dist.send(whole, 1 - source, group=group)
            elif rank == 1 - source:
                dist.recv(whole, source, group=group)

    return {
        "all_reduce": lambda: dist.all_reduce(whole, group=group),
        "broadcast": lambda: dist.broadcast(whole, 0, group=group),
        "reduce": lambda: dist.reduce(whole, 0, group=group),
        "all_gather": lambda: dist.all_gather_into_tensor(other, part, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, group=group),
        "all_to_all": lambda: dist.all_to_all_single(other, whole, group=group),
        "gather": lambda: dist.gather(part, parts, 0, group=group),
        "scatter": lambda: dist.scatter(part, parts, 0, group=group),
        "send and return": send_and_return,
    }


def time_calls(call: Callable[[], object], calls: int, meet: bool) -> list[float]:
    """Microseconds of each call, of the slowest rank."""
    times = torch.zeros(calls, dtype=torch.float64)
    dist.barrier()
    for i in range(calls):
        start = time.perf_counter()
        call()
        times[i] = time.perf_counter() - start
        if meet:
            dist.barrier()
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    return (times * 1e6).tolist()


def measure_collectives(gloo: Group, alone: Group, seconds: float, size: int) -> None:
    """A row for each collective. `seconds`: about as long for a row."""
    pair = {"unisono": make_calls(size, None), "gloo": make_calls(size, gloo)}
    if size == TINY:
        pair["alone"] = make_calls(size, alone)
    for name in pair["gloo"]:
        meet = name in ROOTED
        calls, times = {}, {}
        for library, all_calls in pair.items():
            sample = statistics.median(time_calls(all_calls[name], WARMUP + 3, meet)[WARMUP:])
            calls[library] = max(1, min(1000, int(seconds / 2 / TURNS / (sample * 1e-6))))
            times[library] = []
        for _ in range(TURNS):
            for library, all_calls in pair.items():
                times[library] += time_calls(all_calls[name], calls[library], meet)
        show(name, size, {library: statistics.median(t) for library, t in times.items()})


def send_nothing(_: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A communication hook for what DDP does by itself: gradients into buckets."""
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def measure_ddp(gloo: Group, steps: int, mib: int) -> None:
    """What a training step takes with DDP beyond what it takes without, for `mib` MiB of gradients."""
    width = round((mib * (1 << 20) / 24) ** 0.5)
    net = nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(width, width), nn.ReLU())])
    data = torch.randn(48, width)
    models: dict[str, nn.Module] = {"local": net}
    models["gloo"] = DistributedDataParallel(copy.deepcopy(net), process_group=gloo, gradient_as_bucket_view=True)
    os.environ["DDP_DISABLE_COMM_MEM"] = "1"
    models["private"] = DistributedDataParallel(copy.deepcopy(net), gradient_as_bucket_view=True)

    silent = DistributedDataParallel(copy.deepcopy(net), gradient_as_bucket_view=True)
    silent.register_comm_hook(None, send_nothing)
    models["silent"] = silent

    def step(model: nn.Module) -> None:
        model.zero_grad(set_to_none=True)
        model(data).square().mean().backward()

    for model in models.values():  # two steps, after which DDP has made its buckets for good
        step(model), step(model)
    os.environ["DDP_DISABLE_COMM_MEM"] = "0"  # as unisono sets it: buckets in memory that ranks share
    models["unisono"] = DistributedDataParallel(copy.deepcopy(net), gradient_as_bucket_view=True)
    step(models["unisono"]), step(models["unisono"])
    times: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(steps):
        for name, model in models.items():
            # The second of two: the first finds its predecessor's data in the caches. To the end of the slowest rank.
            times[name].append(time_calls(lambda model=model: (step(model), dist.barrier()), 2, False)[1])
    show("ddp", mib << 20, {name: statistics.median(t) for name, t in times.items()})


def show(what: str, size: int, times: dict[str, float]) -> None:
    """Print the row: microseconds of each."""
    if dist.get_rank() == 0:
        row = {"what": what, "ranks": dist.get_world_size(), "bytes": size}
        print(json.dumps(row | {f"{name}_us": round(t, 2) for name, t in times.items()}), flush=True)


def main() -> None:
    torch.set_num_threads(1)  # a rank is a core
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    meeting = "file://" + os.environ["INIT_FILE"]
    dist.init_process_group("unisono", init_method=meeting, rank=rank, world_size=ranks)
    gloo = dist.new_group(backend="gloo")
    alone = dist.new_group(backend="fake")  # communicates nothing: what is left is torch
    mode, effort, *sizes = sys.argv[1:]
    for size in sizes:
        if mode == "ddp":
            measure_ddp(gloo, int(effort), int(size))
        else:
            measure_collectives(gloo, alone, float(effort), int(size))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

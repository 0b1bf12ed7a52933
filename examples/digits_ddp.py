"""Train on handwritten digits with PyTorch's DistributedDataParallel, on the back end whose name is given.

    unisono run -n 4 -- python examples/digits_ddp.py --backend unisono [--out losses.json | --out losses.csv]
    torchrun --nproc-per-node 4 examples/digits_ddp.py --backend gloo

The same seeds, batches and arithmetic whatever the back end: what differs between two runs comes from the back end.
Rank 0 writes the loss of each step, on all ranks' samples, and its time in seconds. Needs torch
(pip install torch==2.13.0).
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread a rank: torch's own would compete for the cores

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

WIDTH, BATCH, EPOCHS, WARM_UP = 512, 256, 40, 10


def load() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Images and labels to train on, and to test on: one digit in five."""
    images, labels = load_digits(return_X_y=True)
    x, y = torch.from_numpy(images / 16.0), torch.from_numpy(labels)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(7))
    test, train = order[: len(y) // 5], order[len(y) // 5 :]
    return x[train], y[train], x[test], y[test]


def network() -> torch.nn.Sequential:
    """About 300 000 parameters in float64: the sums of two back ends then differ in the last of 16 digits."""
    torch.manual_seed(1)
    sizes = (64, WIDTH, WIDTH, 10)
    layers: list[torch.nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1]).double()


def shares(count: int, epochs: int) -> Iterator[torch.Tensor]:
    """Indices of this rank's share of each batch."""
    rank, size = dist.get_rank(), dist.get_world_size()
    share = BATCH // size
    for epoch in range(epochs):
        order = torch.randperm(count, generator=torch.Generator().manual_seed(epoch))
        for start in range(0, count - BATCH + 1, BATCH):
            yield order[start + rank * share : start + (rank + 1) * share]


def train(model: DistributedDataParallel, x: torch.Tensor, y: torch.Tensor, epochs: int) -> dict[str, list[float]]:
    """Descend along averaged gradients; the loss and the time of each step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses, seconds = [], []
    for mine in shares(len(y), epochs):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = cross_entropy(model(x[mine]), y[mine])
        torch.autograd.backward(loss)
        optimizer.step()
        seconds.append(time.perf_counter() - start)
        # Outside of the time: only the picture needs it. With an equal share on each rank it is the batch's loss.
        whole = loss.detach() / dist.get_world_size()
        dist.all_reduce(whole)
        losses.append(float(whole))
    return {"losses": losses, "seconds": seconds}


def write(path: Path, result: dict[str, Any]) -> None:
    """A row for each step, or everything, by the name's ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        rows = zip(result["losses"], result["seconds"], strict=True)
        path.write_text("loss,seconds\n" + "".join(f"{loss!r},{seconds!r}\n" for loss, seconds in rows))
    else:
        path.write_text(json.dumps(result, indent=2) + "\n")


def main() -> None:
    """Train, and let rank 0 tell."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--backend", default="unisono", help='"unisono" or "gloo"')
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--out", type=Path, help="write losses and times here: .json or .csv")
    arguments = parser.parse_args()
    if arguments.backend == "unisono":
        import unisono.torch  # noqa: F401 - makes the name known to torch

    torch.set_num_threads(1)
    dist.init_process_group(arguments.backend)
    x, y, test_x, test_y = load()
    model = DistributedDataParallel(network())
    result: dict[str, Any] = train(model, x, y, arguments.epochs)
    if dist.get_rank() == 0:
        with torch.no_grad():
            accuracy = float((model.module(test_x).argmax(dim=1) == test_y).double().mean())
        seconds = result["seconds"]
        usual = sorted(seconds[min(WARM_UP, len(seconds) // 2) :])
        result |= {
            "backend": arguments.backend,
            "ranks": dist.get_world_size(),
            "gradient_bytes": sum(p.numel() * p.element_size() for p in model.parameters()),
            "median_seconds": usual[len(usual) // 2],
            "accuracy": accuracy,
        }
        print(
            "{backend}: {0} steps on {ranks} ranks, a step in {1:.2f} ms, loss {2:.5f}, accuracy {accuracy:.3f}".format(
                len(result["losses"]), 1e3 * result["median_seconds"], result["losses"][-1], **result
            )
        )
        if arguments.out:
            write(arguments.out, result)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

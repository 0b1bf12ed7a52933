"""A training script in the style of PyTorch's tutorials: `train.py BACKEND RESULT`, under a launcher."""

from __future__ import annotations

import argparse
import json

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def data() -> TensorDataset:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(96, 8, generator=random)
    return TensorDataset(x, (x[:, :2] * x[:, 2:4]).sum(1, keepdim=True))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("backend")
    parser.add_argument("result")
    arguments = parser.parse_args()

    dist.init_process_group(arguments.backend)
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    dataset = data()
    sampler: DistributedSampler[TensorDataset] = DistributedSampler(dataset, seed=1)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    losses = []
    for epoch in range(4):
        sampler.set_epoch(epoch)
        total = torch.zeros(1)
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            torch.autograd.backward(loss)
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        losses.append(total.item() / len(loader) / dist.get_world_size())
    if dist.get_rank() == 0:
        with open(arguments.result, "w") as file:
            json.dump({"backend": dist.get_backend(), "losses": losses}, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""`with_accelerate.py BACKEND RESULT`: Hugging Face accelerate, with only the back end's name given.

On CPUs accelerate knows the names "mpi" and "gloo" alone, but uses the group that is there: so the script makes it.
"""

from __future__ import annotations

import json
import sys

import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, set_seed
from train import data


def main() -> None:
    backend, result = sys.argv[1:]
    dist.init_process_group(backend)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    set_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    # 94 samples do not share equally: gather_for_metrics drops what was repeated to fill the last batch.
    subset = torch.utils.data.Subset(data(), range(94))
    model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(subset, batch_size=8))
    losses, seen = [], 0
    for _ in range(3):
        total = 0.0
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = torch.nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            total += accelerator.reduce(loss.detach(), "mean").item()
            seen += len(accelerator.gather_for_metrics(x))
        losses.append(total / len(loader))
    shared = broadcast_object_list([losses if accelerator.is_main_process else None])
    assert shared == [losses]
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        with open(result, "w") as file:
            json.dump({"backend": dist.get_backend(), "losses": losses, "seen": seen}, file)
    accelerator.end_training()


if __name__ == "__main__":
    main()

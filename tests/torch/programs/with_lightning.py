"""`with_lightning.py BACKEND RESULT`: Lightning starts two processes, with only the back end's name given."""

from __future__ import annotations

import json
import sys

import torch
import torch.distributed as dist
from pytorch_lightning import LightningModule, Trainer, seed_everything
from pytorch_lightning.strategies import DDPStrategy
from train import data


class Regression(LightningModule):  # type: ignore[misc, unused-ignore]
    """A small net; the loss of each epoch is a mean over all ranks.

    For it Lightning asks for the AVG of an int64, too, except where the back end's name is "gloo".
    """

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        self.losses: list[float] = []

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> torch.Tensor:
        loss = torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def on_train_epoch_end(self) -> None:
        self.losses.append(float(self.trainer.callback_metrics["loss"]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.02)


def main() -> None:
    backend, result = sys.argv[1:]
    seed_everything(4, verbose=False)
    model = Regression()
    trainer = Trainer(
        accelerator="cpu",
        devices=2,
        strategy=DDPStrategy(process_group_backend=backend),
        max_epochs=3,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, torch.utils.data.DataLoader(data(), batch_size=8, shuffle=True))
    if trainer.is_global_zero:
        with open(result, "w") as file:
            json.dump({"backend": dist.get_backend(), "losses": model.losses}, file)


if __name__ == "__main__":
    main()

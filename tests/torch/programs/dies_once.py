"""`dies_once.py FOLDER` under a launcher: rank 1 dies in the first attempt; each writes how it ended."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist


def main() -> None:
    folder, attempt = Path(sys.argv[1]), int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    # Torchrun ends all ranks as soon as it sees that one died; this one first writes down what it heard from unisono.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    dist.init_process_group("unisono")
    report = folder / f"attempt{attempt}-rank{dist.get_rank()}"
    try:
        for step in range(20):
            x = torch.ones(1000)
            dist.all_reduce(x)
            if attempt == 0 and step == 5 and dist.get_rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
    except Exception as error:
        report.write_text(f"{type(error).__name__}: {error}")
        raise
    report.write_text(f"sum {x[0].item():g}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

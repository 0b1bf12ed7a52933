"""monitored_barrier for any back end that has one; torch's own function asks for the name "gloo"."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist


def monitored_barrier(
    group: dist.ProcessGroup | None = None,
    timeout: timedelta | None = None,
    wait_all_ranks: bool = False,
) -> None:
    """Wait until all ranks of the group are here; rank 0 raises an error that names those that are not.

    group: the default group when None. timeout: the group's when None; it counts on rank 0. wait_all_ranks: have all
    that are missing named, and not only the first. Raises DistBackendError: "Rank 2 failed to pass monitoredBarrier in
    1000 ms", on the other ranks "... received errors while waiting for send/recv from rank 0".
    """
    chosen: Any = dist.distributed_c10d._group_or_default_group(group)
    if dist.get_rank(chosen) < 0:
        return
    if timeout is None:
        timeout = chosen._get_backend(torch.device("cpu")).options._timeout
    chosen.monitored_barrier(timeout, wait_all_ranks)

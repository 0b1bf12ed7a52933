"""monitored_barrier: a barrier that tells who is missing."""

from __future__ import annotations

import time
from datetime import timedelta

from unisono import _core
from unisono.distributed._group import AnyGroup, ProcessGroup, member_of, seconds_of
from unisono.errors import Error, Timeout

_TAGS = 1 << 40  # beyond those of users


def monitored_barrier(group: AnyGroup = None, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
    """Wait until all ranks have called it; rank 0 raises Timeout naming those that have not.

    timeout: the group's when None; it counts on rank 0. wait_all_ranks: have all that are missing named, and not only
    the first. On the other ranks the error says that rank 0 did not answer.
    """
    chosen = member_of(group, "monitored_barrier")
    if chosen is None:
        return
    limit = seconds_of(timeout, "monitored_barrier")
    if limit is None:
        limit = chosen.timeout if chosen.timeout is not None else _core.settings_from_env().timeout
    tag = _TAGS + chosen.barriers
    chosen.barriers += 1
    if chosen.rank() == 0:
        _collect(chosen, tag, limit, wait_all_ranks)
        for place in range(1, chosen.size()):
            chosen.core.send(b"\0", place, tag, timeout=limit)
        return
    try:
        chosen.core.send(b"\0", 0, tag, timeout=limit)
        chosen.core.recv(bytearray(1), 0, tag, timeout=limit)
    except Error as error:
        raise Timeout(
            f"Rank {chosen.ranks[chosen.rank()]} successfully reached monitoredBarrier, but received errors while "
            f"waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank. {error}"
        ) from error


def _collect(chosen: ProcessGroup, tag: int, limit: float, wait_all_ranks: bool) -> None:
    until = time.monotonic() + limit
    missing, reasons = [], []
    for place in range(1, chosen.size()):
        try:
            chosen.core.recv(bytearray(1), place, tag, timeout=max(until - time.monotonic(), 0.001))
        except Error as error:
            missing.append(chosen.ranks[place])
            reasons.append(f"\n  rank {chosen.ranks[place]}: {error}")
            if not wait_all_ranks:
                break
    if missing:
        who = f"Rank {missing[0]}" if len(missing) == 1 else f"Ranks {', '.join(map(str, missing))}"
        raise Timeout(f"{who} failed to pass monitoredBarrier in {limit * 1000:.0f} ms{''.join(reasons)}", missing)

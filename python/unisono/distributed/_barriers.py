"""monitored_barrier: a barrier that tells who is missing."""

from __future__ import annotations

from datetime import timedelta

from unisono import _core, _monitored
from unisono.distributed._group import AnyGroup, member_of, seconds_of
from unisono.errors import Error, Timeout


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
    tag = _monitored.FIRST_TAG + chosen.barriers
    chosen.barriers += 1
    try:
        missing = _monitored.monitored_barrier(chosen.core, tag, limit, wait_all_ranks)
    except Error as error:
        if chosen.rank() == 0:
            raise
        raise Timeout(
            f"Rank {chosen.ranks[chosen.rank()]} successfully reached monitoredBarrier, but received errors while "
            f"waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank. {error}"
        ) from error
    if missing:
        ranks = [chosen.ranks[place] for place in missing]
        who = f"Rank {ranks[0]}" if len(ranks) == 1 else f"Ranks {', '.join(map(str, ranks))}"
        reasons = "".join(f"\n  rank {rank}: {error}" for rank, error in zip(ranks, missing.values(), strict=True))
        raise Timeout(f"{who} failed to pass monitoredBarrier in {limit * 1000:.0f} ms{reasons}", ranks)

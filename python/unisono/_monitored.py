"""A barrier that tells who is missing: every rank reports to rank 0, which answers when all have."""

from __future__ import annotations

import time

from unisono import _core
from unisono.errors import Error

FIRST_TAG = 1 << 40
"""Tags of users are below it. Each such barrier of a group has one of its own."""


def monitored_barrier(group: _core.Group, tag: int, seconds: float, wait_all_ranks: bool) -> dict[int, Error]:
    """On rank 0: the ranks that have not come within `seconds`, and why; empty where all have, who are answered then.

    wait_all_ranks: all of them, and not only the first. On the other ranks, which block until rank 0 answers: nothing.
    Raises Error where an answer does not come, or cannot be sent.
    """
    until = time.monotonic() + seconds
    token = bytearray(1)

    def left() -> float:
        return max(until - time.monotonic(), 0.001)

    if group.rank != 0:
        group.send(token, 0, tag, timeout=left())
        group.recv(token, 0, tag, timeout=left())
        return {}
    missing: dict[int, Error] = {}
    for rank in range(1, group.size):
        try:
            group.recv(token, rank, tag, timeout=left())
        except Error as error:
            missing[rank] = error
            if not wait_all_ranks:
                break
    if not missing:
        for rank in range(1, group.size):
            group.send(token, rank, tag, timeout=left())
    return missing

"""A child of fork() and what its parent does meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable


def beside_a_child(child: Callable[[Callable[[], None]], int], parent: Callable[[], None]) -> int:
    """Fork; the child's exit status: what `child` returns, or 1 when it raises.

    `child` gets a function that lets `parent` run in the parent, and returns when that has ended.
    """
    ready, go = os.pipe(), os.pipe()

    def wait() -> None:
        os.write(ready[1], b"x")
        os.read(go[0], 1)

    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = child(wait)
        finally:
            os._exit(status)
    os.close(ready[1])  # a child that ends before it waits is noticed
    os.read(ready[0], 1)
    parent()
    os.write(go[1], b"x")
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    for end in (ready[0], *go):
        os.close(end)
    return status

"""A job for one function: processes as torch's users start them, each of which may return, raise, or die."""

from __future__ import annotations

import contextlib
import faulthandler
import random
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import fork_server

LIMIT = 60.0  # seconds
TELL = LIMIT - 5.0  # a rank that still runs writes where it is to stderr


@dataclass
class End:
    """How a rank ended: with a value, with an exception (names of its classes, text), or without a word."""

    value: Any = None
    kinds: tuple[str, ...] = ()
    text: str = ""
    status: int | None = None

    @property
    def good(self) -> bool:
        """It returned."""
        return not self.kinds and self.status == 0


def free_port() -> int:
    """A TCP port on the loopback that nobody uses at the moment, below those that outgoing connections get."""
    while True:
        with contextlib.suppress(OSError), socket.socket() as probe:
            port = random.randrange(20000, 32000)
            probe.bind(("127.0.0.1", port))
            return port


def _rank(pipe: Connection, env: dict[str, str], function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    with fork_server.rank(env):
        faulthandler.dump_traceback_later(TELL)
        try:
            pipe.send(End(function(**arguments)))
        except BaseException as error:
            kinds = tuple(kind.__name__ for kind in type(error).__mro__)
            pipe.send(End(None, kinds, f"{error}\n{traceback.format_exc()}"))
            pipe.close()
            raise SystemExit(1) from None


def launch(
    function: Callable[..., Any], size: int, folder: Path, env: dict[str, str] | None = None, **arguments: Any
) -> list[End]:
    """Run function(rank, size, folder, **arguments) in `size` processes; how each ended."""
    context = fork_server.context(env or {})
    pipes, processes = [], []
    for rank in range(size):
        mine, theirs = context.Pipe(duplex=False)
        everything = {"rank": rank, "size": size, "folder": str(folder), **arguments}
        process = context.Process(
            target=_rank, args=(theirs, fork_server.environment(env), function, everything), daemon=True
        )
        process.start()
        theirs.close()
        pipes.append(mine)
        processes.append(process)
    deadline = time.monotonic() + LIMIT
    ends = []
    try:
        for pipe, process in zip(pipes, processes, strict=True):
            end = End(text="it ended without a word")
            try:
                assert pipe.poll(max(0.0, deadline - time.monotonic())), f"a rank did not end within {LIMIT} s"
                end = pipe.recv()
            except EOFError:
                pass
            process.join(max(1.0, deadline - time.monotonic()))
            assert process.exitcode is not None, "a rank answered but did not end"
            end.status = process.exitcode
            ends.append(end)
    finally:
        for process in processes:
            process.kill()
            process.join()
    return ends


def values(ends: list[End]) -> list[Any]:
    """What all returned; fails with the text of those that did not."""
    bad = [f"rank {rank} ({end.status}): {end.text}" for rank, end in enumerate(ends) if not end.good]
    assert not bad, "\n".join(bad)
    return [end.value for end in ends]

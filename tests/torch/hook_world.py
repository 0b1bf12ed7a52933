"""Ranks that stay: processes that joined a c10d group, and run functions of hook_cases one after the other."""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import fork_server

LIMIT = 100.0  # seconds for one function on all ranks


def serve(pipe: Connection, env: dict[str, str], backend: str, rank: int, size: int, store: str) -> None:
    """A rank: join, then run what comes through the pipe until it ends."""
    with fork_server.rank(env):
        import torch
        import torch.distributed as dist
        import unisono.torch  # noqa: F401 - makes the name known to torch

        torch.set_num_threads(1)
        dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=size)
        for function, arguments in tasks(pipe):
            torch.manual_seed(0)
            try:
                pipe.send((True, function(**arguments)))
            except BaseException:
                pipe.send((False, traceback.format_exc()))
        dist.destroy_process_group()


def tasks(pipe: Connection) -> Iterator[tuple[Callable[..., Any], dict[str, Any]]]:
    """What comes through the pipe, until None does or the tests have ended in the middle."""
    with contextlib.suppress(EOFError):
        yield from iter(pipe.recv, None)


class World:
    """`world.run(function, ...)`: what the function returned on each rank."""

    def __init__(self, backend: str, size: int, folder: Path, env: dict[str, str] | None = None) -> None:
        self.backend, self.size = backend, size
        context = fork_server.context({})
        pairs = [context.Pipe() for _ in range(size)]
        self._pipes = [mine for mine, _ in pairs]
        store = str(folder / "store")
        self._processes = [
            context.Process(
                target=serve, args=(theirs, fork_server.environment(env), backend, rank, size, store), daemon=True
            )
            for rank, (_, theirs) in enumerate(pairs)
        ]
        for process in self._processes:
            process.start()
        for _, theirs in pairs:
            theirs.close()

    def run(self, function: Callable[..., Any], **arguments: Any) -> list[Any]:
        """The results by rank. AssertionError when a rank raises; or dies or hangs, and then the world is over."""
        answers, failures = [], []
        for rank, pipe in enumerate(self._pipes):
            try:
                pipe.send((function, arguments))
            except OSError:
                failures.append(f"rank {rank} had ended before")
        deadline = time.monotonic() + (0.0 if failures else LIMIT)
        for rank, pipe in enumerate(self._pipes):
            if not pipe.poll(max(0.0, deadline - time.monotonic())):
                failures.append(f"rank {rank} did not answer within {LIMIT} s")
                continue
            try:
                good, answer = pipe.recv()
            except (EOFError, OSError):
                failures.append(f"rank {rank} ended")
                continue
            answers.append(answer)
            if not good:
                failures.append(f"rank {rank}: {answer}")
        if len(answers) < self.size:
            self.kill()
        if failures:
            raise AssertionError("\n".join(failures))
        return answers

    def close(self) -> None:
        """Let ranks leave; kill those who do not."""
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            if process.is_alive():
                pipe.send(None)
        for process in self._processes:
            process.join(10)
        self.kill()

    def kill(self) -> None:
        """End all ranks."""
        for process in self._processes:
            process.kill()
            process.join()

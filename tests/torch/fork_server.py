"""Where ranks of tests come from: a fork server with torch loaded, since importing it takes a core three seconds."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
from collections.abc import Iterator, Mapping
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, SpawnContext
from typing import NoReturn
from unittest import mock

PRELOADED = [
    "torch",
    "torch.distributed",
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "numpy",
]


def context(env: Mapping[str, str]) -> ForkServerContext | SpawnContext:
    """Processes of the fork server; new interpreters where the environment says something to torch's import."""
    if any(name.startswith("TORCH") for name in env):
        return multiprocessing.get_context("spawn")
    served = multiprocessing.get_context("forkserver")
    served.set_forkserver_preload(PRELOADED)
    with mock.patch.dict(os.environ, OMP_NUM_THREADS="1"):  # it is read when torch is loaded
        forkserver.ensure_running()
    return served


@contextlib.contextmanager
def rank(env: Mapping[str, str]) -> Iterator[None]:
    """What a rank does runs in here: in the environment that it was given; afterwards it ends as any program does."""
    os.environ.clear()
    os.environ.update(env)
    try:
        yield
    finally:
        # The server's children end by os._exit, which would skip all cleaning up; a new interpreter has no use for it.
        os._exit = _end


def environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """That of this process and `env`, for rank()."""
    return {**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}


def _end(status: int) -> NoReturn:
    sys.exit(status)

"""Where ranks of tests come from: a fork server with torch loaded, since importing it takes a core three seconds."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import sys
from collections.abc import Iterator, Mapping
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from typing import NoReturn
from unittest import mock

PRELOADED = [
    "torch",
    "torch.distributed",
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "numpy",
    "preloaded",
]
DEBUG = "TORCH_DISTRIBUTED_DEBUG"  # torch can read it again


def context(env: Mapping[str, str]) -> ForkServerContext | SpawnContext:
    """Processes of the fork server; new interpreters where the environment says something to torch's import."""
    if any(name.startswith("TORCH") and name != DEBUG for name in env):
        return multiprocessing.get_context("spawn")
    served = multiprocessing.get_context("forkserver")
    served.set_forkserver_preload(PRELOADED)
    here = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
    # They are read when the server starts, and when it loads torch.
    with mock.patch.dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=here):
        forkserver.ensure_running()
    return served


@contextlib.contextmanager
def rank(env: Mapping[str, str]) -> Iterator[None]:
    """What a rank does runs in here: in the environment that it was given; afterwards it ends as any program does."""
    os.environ.clear()
    os.environ.update(env)
    if DEBUG in env:
        importlib.import_module("torch.distributed").set_debug_level_from_env()
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

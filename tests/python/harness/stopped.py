"""Ranks that are stopped, and memory of each kind that others can reach."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

MiB = 1 << 20


def memory(world: Any, kind: str) -> tuple[Any, Any]:
    """An array of the kind (empty, registered, ordinary), and its operand: all of it, or a part between whole pages."""
    elements = 64 * MiB // 4
    whole = world.empty(elements) if kind.startswith("empty") else np.empty(elements, np.float32)
    if kind.startswith("registered"):
        world.register(whole)
    quarter = elements // 4
    return whole, whole[quarter + 3 : 3 * quarter + 5] if kind.endswith("part") else whole


def stop_soon() -> None:
    """Stop this process in a moment, at random: in most cases amid an operation."""
    moment = random.Random(os.getpid()).uniform(0.01, 0.1)

    def stop() -> None:
        time.sleep(moment)
        os.kill(os.getpid(), signal.SIGSTOP)

    threading.Thread(target=stop, daemon=True).start()


def say(folder: str, word: str) -> None:
    """Tell those that wait for it, by a file."""
    (Path(folder) / word).touch()


def said(folder: str, word: str, limit: float = 60.0) -> None:
    """Wait until somebody has said it."""
    until = time.monotonic() + limit
    while not (Path(folder) / word).exists():
        assert time.monotonic() < until, f"nobody said {word}"
        time.sleep(0.01)

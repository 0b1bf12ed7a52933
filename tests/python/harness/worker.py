"""One rank of a test: runs functions that arrive as source. Started by launch.py and pool.py; tests never import it."""

from __future__ import annotations

import array
import ast
import faulthandler
import gc
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import unisono

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from harness import reference, staging

NAMESPACE = {
    "array": array,
    "gc": gc,
    "json": json,
    "math": math,
    "np": np,
    "os": os,
    "reference": reference,
    "signal": signal,
    "socket": socket,
    "staging": staging,
    "subprocess": subprocess,
    "sys": sys,
    "threading": threading,
    "time": time,
    "unisono": unisono,
    "Any": Any,
}


def revive(task: dict[str, Any]) -> Callable[..., Any]:
    """Make the function of a task; its lines keep their numbers, so that tracebacks show the test's source."""
    tree = ast.parse(task["source"])
    ast.increment_lineno(tree, task["line"] - 1)
    scope = dict(NAMESPACE)
    scope["__name__"] = "rank"
    exec(compile(tree, task["file"], "exec"), scope)
    function = scope[task["name"]]
    assert callable(function)
    return function


def describe(error: BaseException) -> dict[str, Any]:
    """An exception as JSON."""
    fields = {key: value for key, value in vars(error).items() if isinstance(value, int | str | list)}
    kinds = [kind.__name__ for kind in type(error).__mro__]
    return {"kinds": kinds, "message": str(error), "fields": fields, "traceback": traceback.format_exc()}


def plain(value: Any) -> Any:
    """For json.dumps: NumPy's values."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, bytes | bytearray):
        return list(value)
    raise TypeError(f"a rank returned a {type(value).__name__}, which is not JSON")


def perform(task: dict[str, Any], *first: Any) -> dict[str, Any]:
    """Run a task's function; what it returned or raised, as JSON would have it."""
    start = time.monotonic()
    answer: dict[str, Any] = {"value": None, "failure": None}
    try:
        answer["value"] = json.loads(json.dumps(revive(task)(*first, **task["arguments"]), default=plain))
    except (Exception, KeyboardInterrupt) as error:
        answer["failure"] = describe(error)
    answer["seconds"] = time.monotonic() - start
    return answer


def run_job(job: dict[str, Any], rank: int | None = None) -> int:
    """Join the world (when asked to), run the function, leave the outcome in a file; 1 when it raised."""
    folder = Path(job["folder"])
    settings = dict(job["init"] or {})
    if rank is not None:
        settings |= {"rank": rank, "size": job["ranks"]}
    me = int(os.environ.get("UNISONO_RANK", "0")) if rank is None else rank
    world = None
    if job["init"] is None:
        answer = perform(job["task"])
    else:
        try:
            world = unisono.init(**settings)
        except Exception as error:
            answer = {"value": None, "failure": describe(error), "seconds": 0.0}
        else:
            answer = perform(job["task"], world)
    partial = folder / f"rank-{me}.partial"
    partial.write_text(json.dumps(answer))
    partial.rename(folder / f"rank-{me}.json")
    if world is not None and answer["failure"] is None:
        world.destroy()
    return int(answer["failure"] is not None)


def serve(path: str) -> int:
    """A rank of a pool: run tasks from a socket, one line of JSON each, until it is closed.

    Prints where its threads are on SIGUSR1.
    """
    faulthandler.register(signal.SIGUSR1)
    world = unisono.init()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        lines = connection.makefile("rw", encoding="utf-8")
        print(json.dumps({"rank": world.rank, "pid": os.getpid()}), file=lines, flush=True)
        for line in lines:
            print(json.dumps(perform(json.loads(line), world)), file=lines, flush=True)
    world.destroy()
    return 0


def main() -> int:
    """worker.py --job FILE, or worker.py --pool SOCKET."""
    mode, path = sys.argv[1:]
    if mode == "--pool":
        return serve(path)
    return run_job(json.loads(Path(path).read_text()))


if __name__ == "__main__":
    sys.exit(main())

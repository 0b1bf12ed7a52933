"""A job for one function: through the launcher, or through multiprocessing with an init_method."""

from __future__ import annotations

import contextlib
import inspect
import json
import multiprocessing
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.outcome import Job, Outcome

WORKER = Path(__file__).with_name("worker.py")
LIMIT = 60.0  # seconds, for a whole job


def unisono_command() -> str:
    """The command of this environment."""
    beside = Path(sys.executable).parent / "unisono"
    command = os.environ.get("UNISONO_COMMAND") or (str(beside) if beside.exists() else shutil.which("unisono"))
    assert command, f"no command unisono beside {sys.executable}, nor in PATH: run make build"
    return command


def free_port() -> int:
    """A TCP port on the loopback that nobody uses at the moment, below those that outgoing connections get."""
    while True:
        with contextlib.suppress(OSError), socket.socket() as probe:
            port = random.randrange(20000, 32000)
            probe.bind(("127.0.0.1", port))
            return port


def task_of(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A function as source, with where it stands."""
    source, line = inspect.getsourcelines(function)
    return {
        "source": textwrap.dedent("".join(source)),
        "line": line,
        "file": inspect.getsourcefile(function),
        "name": function.__name__,
        "arguments": dict(arguments),
    }


def environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    """What ranks inherit: nothing of an outer job or of what this machine was tuned to, one thread for NumPy."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("UNISONO_", "PYTEST_"))}
    return {**clean, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "UNISONO_TUNING": "off", **(extra or {})}


def launch(
    function: Callable[..., Any],
    ranks: int,
    *,
    through: str = "run",
    init: Mapping[str, Any] | None = None,
    join: bool = True,
    env: Mapping[str, str] | None = None,
    limit: float = LIMIT,
    **arguments: Any,
) -> Job:
    """Run function(world, **arguments) on so many ranks.

    through: run (the launcher), tcp or file (multiprocessing, that init_method).
    init: more arguments of unisono.init. join: False: call function(**arguments) instead, it joins by itself.
    """
    with tempfile.TemporaryDirectory(prefix="unisono-test-") as folder:
        job: dict[str, Any] = {
            "folder": folder,
            "ranks": ranks,
            "init": dict(init or {}) if join else None,
            "task": task_of(function, arguments),
        }
        if through == "run":
            output, status = _through_launcher(job, ranks, environment(env), limit)
        else:
            if through == "tcp":
                job["init"].setdefault("init_method", f"tcp://127.0.0.1:{free_port()}")
            elif through == "file":
                job["init"].setdefault("init_method", f"file://{folder}/store")
            output, status = _through_multiprocessing(job, ranks, env or {}, limit)
        outcomes = []
        for rank in range(ranks):
            path = Path(folder) / f"rank-{rank}.json"
            outcomes.append(Outcome.from_json(rank, json.loads(path.read_text()) if path.exists() else None))
        return Job(outcomes, output, status)


def _through_launcher(job: dict[str, Any], ranks: int, env: dict[str, str], limit: float) -> tuple[str, int]:
    path = Path(job["folder"]) / "job.json"
    path.write_text(json.dumps(job))
    command = [unisono_command(), "run", "-n", str(ranks), "--", sys.executable, str(WORKER), "--job", str(path)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        output = stop(process)
        raise AssertionError(f"the job did not end within {limit} s\n{output}") from None
    return output, process.returncode


def stop(process: subprocess.Popen[str]) -> str:
    """End a launcher and its ranks: politely, then not; what it had printed."""
    process.send_signal(signal.SIGTERM)
    try:
        return process.communicate(timeout=15)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


def _entry(job: dict[str, Any], rank: int, env: dict[str, str]) -> None:
    # In the child that multiprocessing made. The worker is imported here: it imports unisono, which tests must not.
    for name in [name for name in os.environ if name.startswith("UNISONO_")]:
        del os.environ[name]
    os.environ.update(env)
    from harness import worker

    sys.exit(worker.run_job(job, rank))


def _through_multiprocessing(job: dict[str, Any], ranks: int, env: Mapping[str, str], limit: float) -> tuple[str, int]:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_entry, args=(job, rank, dict(env))) for rank in range(ranks)]
    deadline = time.monotonic() + limit
    for process in processes:
        process.start()
    try:
        for process in processes:
            process.join(max(0.0, deadline - time.monotonic()))
        late = [rank for rank, process in enumerate(processes) if process.is_alive()]
        assert not late, f"ranks {late} did not end within {limit} s"
    finally:
        for process in processes:
            process.kill()
            process.join()
    return "", max(abs(process.exitcode or 0) for process in processes)

"""A store whose server is stopped: every wait ends with the caller's time-out, and says who does not answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

from harness import free_port, unisono_command
from harness.joining import JOIN, Job
from harness.launch import environment

# Seconds beyond the time-out, on a busy machine; on an idle one 0.5 to 2.5. A constant of
# 30 s is no bound.
MORE = 6.0

SUBGROUP = JOIN.replace(
    "world.barrier()",
    """import os, signal
    import numpy as np
    server = int(world.all_gather(np.array([os.getpid()]))[0][0])
    if world.rank == 0:
        os.kill(server, signal.SIGSTOP)
    while open(f"/proc/{server}/stat").read().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.01)
    began = time.time()
    world.subgroup([1, 2], timeout=2)""",
).replace('"at": time.time()}', '"took": time.time() - began}')


def expect_named(said: dict[str, Any], who: str, pid: int) -> None:
    assert said.get("type") == "Timeout", said
    assert f"{who} (host " in said["message"] and f"pid {pid})" in said["message"], said
    assert "kill -CONT" in said["message"], said


def test_subgroup_ends_with_its_time_out() -> None:
    job = Job(3, f"tcp://127.0.0.1:{free_port()}", SUBGROUP)
    try:
        server = job.start(0)
        for rank in (1, 2):
            job.start(rank)
        for rank in (1, 2):
            said = job.said(rank)
            expect_named(said, "rank 0", server.pid)
            assert said["took"] < 2 + MORE, said
    finally:
        job.end()


def test_init_ends_with_its_time_out() -> None:
    job = Job(3, f"tcp://127.0.0.1:{free_port()}", UNISONO_INIT_TIMEOUT="2")
    try:
        server = job.start_joining(0)
        began = time.time()
        job.start_joining(1)
        server.send_signal(signal.SIGSTOP)
        said = job.said(1)
        expect_named(said, "rank 0", server.pid)
        assert said["at"] - began < 2 + MORE, said
        began = time.time()
        job.start(2)
        said = job.said(2)
        assert said["type"] == "SystemError" and "stopped?" in said["message"], said
        assert said["at"] - began < 2 + MORE, said
    finally:
        job.end()


LAUNCHED = """
import os, signal, time
import unisono
world = unisono.init()
world.barrier()
launcher = os.getppid()
began = time.time()
try:
    if world.rank == 0:
        os.kill(launcher, signal.SIGSTOP)
    world.barrier()
    world.subgroup([0, 1], timeout=1)
    said = "made"
except unisono.Error as e:
    said = f"{type(e).__name__} of {launcher} after {time.time() - began:.3f} s: {e}"
world.barrier()
if world.rank == 0:
    os.kill(launcher, signal.SIGCONT)
print(said, flush=True)
"""


def test_a_stopped_launcher_is_named() -> None:
    command = [unisono_command(), "run", "-n", "2", "--", sys.executable, "-c", LAUNCHED]
    done = subprocess.run(
        command, env=environment({}), capture_output=True, text=True, timeout=60, check=False, start_new_session=True
    )
    lines = [line.split("] ", 1)[-1] for line in done.stdout.splitlines() if "Timeout of" in line]
    assert len(lines) == 2, (done.stdout, done.stderr)
    for line in lines:
        words = line.split()
        assert f"unisono run (host {os.uname().nodename}, pid {words[2]})" in line, line
        assert float(words[4]) < 1 + MORE, line

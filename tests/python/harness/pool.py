"""A job that stays: many functions, one after the other, in one world."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from harness.launch import WORKER, environment, stop, task_of, unisono_command
from harness.outcome import Job, Outcome

LIMIT = 60.0  # seconds, for one function
LIMIT_OF_A_CALL = 45.0  # seconds, for one call of it: a call that hangs says in which operation, and why
AFTER_A_FAILURE = 10.0  # and for the other ranks, when one has failed


class Pool:
    """So many ranks that wait for functions to run."""

    def __init__(self, ranks: int, env: dict[str, str]) -> None:
        self.ranks = ranks
        self._folder = tempfile.TemporaryDirectory(prefix="unisono-pool-")
        self._output = open(Path(self._folder.name) / "output", "w+")  # noqa: SIM115 - closed in close()
        path = str(Path(self._folder.name) / "socket")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(ranks)
            command = [unisono_command(), "run", "-n", str(ranks), "--", sys.executable, str(WORKER), "--pool", path]
            self._launcher = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment({"UNISONO_TIMEOUT": str(LIMIT_OF_A_CALL), **env}),
                start_new_session=True,
            )
            self._lines: list[IO[str]] = []
            self._connections: list[socket.socket] = []
            try:
                self._lines = self._accept(listener)
            except BaseException:
                self.close()
                raise

    def _accept(self, listener: socket.socket) -> list[IO[str]]:
        lines: dict[int, IO[str]] = {}
        connections: dict[int, socket.socket] = {}
        self.pids = [0] * self.ranks
        deadline = time.monotonic() + LIMIT
        while len(lines) < self.ranks:
            ready, _, _ = select.select([listener], [], [], 0.2)
            if ready:
                connection = listener.accept()[0]
                connection.settimeout(LIMIT)
                file = connection.makefile("r", encoding="utf-8")
                hello = json.loads(file.readline())
                lines[hello["rank"]], connections[hello["rank"]] = file, connection
                self.pids[hello["rank"]] = hello["pid"]
            elif self._launcher.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the pool of {self.ranks} ranks did not start\n{self.output()}")
        self._connections = [connections[rank] for rank in range(self.ranks)]
        return [lines[rank] for rank in range(self.ranks)]

    @property
    def alive(self) -> bool:
        """Whether it takes more functions."""
        return bool(self._lines) and self._launcher.poll() is None

    def output(self) -> str:
        """What its processes have printed so far."""
        self._output.flush()
        return Path(self._output.name).read_text()

    def job(self, function: Callable[..., Any], **arguments: Any) -> Job:
        """Run function(world, **arguments) on every rank. Closes the pool when one raises: its world may be broken."""
        assert self.alive, f"the pool is closed\n{self.output()}"
        task = json.dumps(task_of(function, arguments))
        for connection in self._connections:
            connection.sendall(f"{task}\n".encode())
        outcomes = self._collect()
        late = [rank for rank in range(self.ranks) if rank not in outcomes]
        self._print_stacks(late)
        job = Job([outcomes[rank] for rank in sorted(outcomes)], self.output())
        if late or any(outcome.missing or outcome.failure for outcome in job.outcomes):
            self.close()
        if late:
            troubles = [outcome.failure.traceback for outcome in job.outcomes if outcome.failure]
            raise AssertionError("\n".join([f"ranks {late} did not answer", *troubles, job.output]))
        return job

    def _collect(self) -> dict[int, Outcome]:
        """The answers, as they come; those that take too long are absent."""
        outcomes: dict[int, Outcome] = {}
        deadline = time.monotonic() + LIMIT
        while len(outcomes) < self.ranks and (left := deadline - time.monotonic()) > 0:
            waiting = {self._lines[rank]: rank for rank in range(self.ranks) if rank not in outcomes}
            for line in select.select(list(waiting), [], [], left)[0]:
                answer = line.readline()
                outcome = Outcome.from_json(waiting[line], json.loads(answer) if answer else None)
                outcomes[waiting[line]] = outcome
                if outcome.missing or outcome.failure:  # the others may wait for it in vain
                    deadline = min(deadline, time.monotonic() + AFTER_A_FAILURE)
        return outcomes

    def _print_stacks(self, ranks: list[int]) -> None:
        """Have these ranks print where they are; returns when all have, or after 5 seconds."""
        printed = self.output().count("Current thread")
        for rank in ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pids[rank], signal.SIGUSR1)
        deadline = time.monotonic() + 5
        while self.output().count("Current thread") < printed + len(ranks) and time.monotonic() < deadline:
            time.sleep(0.05)

    def run(self, function: Callable[..., Any], **arguments: Any) -> list[Any]:
        """Run function(world, **arguments) on every rank; what each returned. Fails the test when one raises."""
        return self.job(function, **arguments).values()

    def close(self) -> None:
        """End the job."""
        for line, connection in zip(self._lines, self._connections, strict=True):
            line.close()
            connection.close()
        self._lines, self._connections = [], []
        try:
            self._launcher.wait(timeout=10)
        except subprocess.TimeoutExpired:
            stop(self._launcher)
        self._output.close()
        self._folder.cleanup()


class Pools:
    """Pools by size and transport, started when first asked for, and again after a failure."""

    def __init__(self) -> None:
        self._pools: dict[tuple[int, str], Pool] = {}

    def __call__(self, ranks: int, transport: str = "") -> Pool:
        """A pool that is alive."""
        key = (ranks, transport)
        if key not in self._pools or not self._pools[key].alive:
            if key in self._pools:
                self._pools[key].close()
            self._pools[key] = Pool(ranks, {"UNISONO_TRANSPORT": transport} if transport else {})
        return self._pools[key]

    def close(self) -> None:
        """End all of them."""
        for pool in self._pools.values():
            pool.close()

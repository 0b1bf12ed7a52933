"""A job that stays: many functions, one after the other, in one world."""

from __future__ import annotations

import json
import select
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
                env=environment(env),
                start_new_session=True,
            )
            self._lines: list[IO[str]] = []
            try:
                self._lines = self._accept(listener)
            except BaseException:
                self.close()
                raise

    def _accept(self, listener: socket.socket) -> list[IO[str]]:
        lines: dict[int, IO[str]] = {}
        self.pids = [0] * self.ranks
        deadline = time.monotonic() + LIMIT
        while len(lines) < self.ranks:
            ready, _, _ = select.select([listener], [], [], 0.2)
            if ready:
                connection = listener.accept()[0]
                with connection:
                    connection.settimeout(LIMIT)
                    file = connection.makefile("rw", encoding="utf-8")
                hello = json.loads(file.readline())
                lines[hello["rank"]] = file
                self.pids[hello["rank"]] = hello["pid"]
            elif self._launcher.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the pool of {self.ranks} ranks did not start\n{self.output()}")
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
        outcomes = []
        for line in self._lines:
            print(task, file=line, flush=True)
        for rank, line in enumerate(self._lines):
            try:
                answer = line.readline()
            except TimeoutError:
                text = self.output()
                self.close()
                raise AssertionError(f"rank {rank} did not answer within {LIMIT} s\n{text}") from None
            outcomes.append(Outcome.from_json(rank, json.loads(answer) if answer else None))
        job = Job(outcomes, self.output())
        if any(outcome.missing or outcome.failure for outcome in outcomes):
            self.close()
        return job

    def run(self, function: Callable[..., Any], **arguments: Any) -> list[Any]:
        """Run function(world, **arguments) on every rank; what each returned. Fails the test when one raises."""
        return self.job(function, **arguments).values()

    def close(self) -> None:
        """End the job."""
        for line in self._lines:
            line.close()
        self._lines = []
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

"""Hosts of a test: network namespaces on one bridge, and a job across them.

Needs root and `ip`. Nothing that is sent leaves the bridge, which has no way out.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.launch import LIMIT, WORKER, environment, stop, task_of, unisono_command
from harness.outcome import Job, Outcome


def why_no_hosts() -> str | None:
    """What is missing for making hosts; None when nothing is."""
    if shutil.which("ip") is None:
        return "there is no ip command (Debian: iproute2)"
    probe = f"uniprobe{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"no network namespace can be made: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return None


class Hosts:
    """So many hosts, 10.77.0.1 and up, while the block lasts. mbit: what a link carries each way; 0: no limit.

    An idle link saves up burst_kb that it then carries at once: with few it is never faster than mbit. With several
    networks each host has eth0, eth1 and so on, with the addresses 10.77.0.1, 10.77.1.1 and so on.
    """

    def __init__(self, count: int, mbit: int = 0, burst_kb: int = 512, networks: int = 1) -> None:
        """Make them at __enter__."""
        self._networks = networks
        self.names = [f"uni{os.getpid()}-{i}" for i in range(count)]
        self._switch = f"uni{os.getpid()}-sw"
        self._mbit = mbit
        self._burst_kb = burst_kb
        self._stack = contextlib.ExitStack()

    @staticmethod
    def address(host: int, network: int = 0) -> str:
        """Where the others reach it."""
        return f"10.77.{network}.{host + 1}"

    def inside(self, host: int, *command: str) -> list[str]:
        """The command line that runs a command on that host."""
        return ["ip", "netns", "exec", self.names[host], *command]

    def __enter__(self) -> Hosts:
        try:
            self._leave_when_terminated()
            self._make()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _leave_when_terminated(self) -> None:
        """SIGTERM, as of `timeout`, ends the process as an exception would: by way of what removes the hosts."""
        if (
            threading.current_thread() is not threading.main_thread()
            or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
        ):
            return

        def leave(number: int, _: object) -> None:
            sys.exit(128 + number)

        self._stack.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, leave))

    def _make(self) -> None:
        for name in [self._switch, *self.names]:
            self._ip("netns", "add", name)
            self._stack.callback(subprocess.run, ["ip", "netns", "del", name], check=False)
        for name in self.names:
            self._ip("-n", name, "link", "set", "lo", "up")
        for network in range(self._networks):
            self._make_network(network)

    def _make_network(self, network: int) -> None:
        bridge, device = f"br{network}", f"eth{network}"
        self._ip("-n", self._switch, "link", "add", bridge, "type", "bridge")
        self._ip("-n", self._switch, "link", "set", bridge, "up")
        for i, name in enumerate(self.names):
            port = f"port{network}-{i}"
            cable = ["link", "add", device, "netns", name, "type", "veth", "peer", "name", port]
            self._ip(*cable, "netns", self._switch)
            self._ip("-n", self._switch, "link", "set", port, "master", bridge, "up")
            self._ip("-n", name, "address", "add", f"{self.address(i, network)}/24", "dev", device)
            self._ip("-n", name, "link", "set", device, "up")
            if self._mbit:
                self._shape(name, device)
                self._shape(self._switch, port)

    def _shape(self, where: str, device: str) -> None:
        queue = ["latency", "50ms"] if self._burst_kb >= 512 else ["limit", "32mb"]  # nothing is dropped
        shape = ["root", "tbf", "rate", f"{self._mbit}mbit", "burst", f"{self._burst_kb}kb", *queue]
        subprocess.run(["ip", "netns", "exec", where, "tc", "qdisc", "add", "dev", device, *shape], check=True)

    @staticmethod
    def _ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True)


@contextlib.contextmanager
def secret_file(folder: str) -> Iterator[str]:
    """A file of that folder with a job's secret."""
    path = Path(folder) / "job.key"
    path.touch(mode=0o600)
    path.write_text(secrets.token_hex(32))
    yield str(path)


def launch_on_hosts(
    function: Callable[..., Any],
    hosts: Hosts,
    ranks_per_host: int,
    *,
    env: Mapping[str, str] | None = None,
    limit: float = LIMIT,
    port: int = 29400,
    **arguments: Any,
) -> Job:
    """Run function(world, **arguments) on the ranks of all hosts, each host with its own `unisono run`."""
    ranks = len(hosts.names) * ranks_per_host
    with tempfile.TemporaryDirectory(prefix="unisono-test-") as folder, secret_file(folder) as secret:
        path = Path(folder) / "job.json"
        job = {"folder": folder, "ranks": ranks, "init": {}, "task": task_of(function, arguments)}
        path.write_text(json.dumps(job))
        launchers = []
        for host in range(len(hosts.names)):
            command = [unisono_command(), "run", "-n", str(ranks_per_host), "--nnodes", str(len(hosts.names))]
            command += ["--node-rank", str(host), "--rdzv", f"{hosts.address(0)}:{port}", "--secret-file", secret]
            command += ["--", sys.executable, str(WORKER), "--job", str(path)]
            launchers.append(
                subprocess.Popen(
                    hosts.inside(host, *command),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    env=environment(env),
                    start_new_session=True,
                )
            )
        outputs = []
        late = False
        for launcher in launchers:
            try:
                outputs.append(launcher.communicate(timeout=limit)[0])
            except subprocess.TimeoutExpired:
                late = True
                outputs.append(stop(launcher))
        output = "".join(f"host {i}:\n{text}" for i, text in enumerate(outputs))
        assert not late, f"the job did not end within {limit} s\n{output}"
        outcomes = []
        for rank in range(ranks):
            answer = Path(folder) / f"rank-{rank}.json"
            outcomes.append(Outcome.from_json(rank, json.loads(answer.read_text()) if answer.exists() else None))
        return Job(outcomes, output, max(launcher.returncode for launcher in launchers))

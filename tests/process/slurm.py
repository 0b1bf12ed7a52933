"""A Slurm of one machine, of its own ports, keys and folders, for as long as a test needs it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import pytest

PROGRAMS = ("slurmctld", "slurmd", "srun", "sinfo", "munged", "mungekey")
START = 30.0  # seconds that a daemon may take until it answers


class Slurm:
    """munged, slurmctld and slurmd, with a folder of their own. Skips the test where they cannot run."""

    def __init__(self, folder: Path) -> None:
        missing = [name for name in PROGRAMS if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
        if missing:
            pytest.skip(f"no {', no '.join(missing)}: tools/launchers.sh installs Slurm")
        if os.geteuid() != 0:
            pytest.skip("Slurm's daemons need root")
        self._folder = folder
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._host = socket.gethostname().split(".")[0]
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}

    def srun(self, ranks: int) -> list[str]:
        """The words that start so many ranks."""
        return ["srun", "-n", str(ranks), "--overcommit", "--kill-on-bad-exit=1"]

    def __enter__(self) -> Slurm:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _start(self) -> None:
        for name in ("state", "spool", "munge"):
            (self._folder / name).mkdir()
        key, door = self._folder / "munge" / "key", self._folder / "munge" / "socket"
        subprocess.run([_path("mungekey"), "--create", f"--keyfile={key}"], check=True)
        key.chmod(0o600)
        # Where a folder above may be written by others, as /tmp is, munged asks to be forced.
        files = [f"--{name}-file={self._folder / 'munge' / name}" for name in ("pid", "log", "seed")]
        self._run("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={door}", *files)
        self._await("munge's socket", door.exists)
        # srun asks slurmctld, and slurmd answers to srun: each listens where nobody else does.
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            two.bind(("127.0.0.1", 0))
            ports = one.getsockname()[1], two.getsockname()[1]
        (self._folder / "slurm.conf").write_text(self._configuration(door, *ports))
        self._run("slurmctld", "-D", "-i")
        self._run("slurmd", "-D", "-N", self._host)
        self._await("an idle node", self._is_idle)

    def _configuration(self, door: Path, controller: int, node: int) -> str:
        return f"""\
ClusterName=unisono-test
SlurmctldHost={self._host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={door}
StateSaveLocation={self._folder / "state"}
SlurmdSpoolDir={self._folder / "spool"}
SlurmctldPidFile={self._folder / "slurmctld.pid"}
SlurmdPidFile={self._folder / "slurmd.pid"}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
MpiDefault=none
SlurmdParameters=config_overrides
NodeName={self._host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=YES
"""

    def _run(self, name: str, *arguments: str) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            environment = {**os.environ, **self.environment}
            self._daemons.append(subprocess.Popen([_path(name), *arguments], env=environment, stdout=log, stderr=log))

    def _is_idle(self) -> bool:
        command = ["sinfo", "--noheader", "--format=%T"]
        environment = {**os.environ, **self.environment}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=START)
        return done.stdout.strip() == "idle"

    def _await(self, what: str, there: Callable[[], bool]) -> None:
        end = time.monotonic() + START
        while not there():
            ended = [str(daemon.args) for daemon in self._daemons if daemon.poll() is not None]
            if ended or time.monotonic() > end:
                logs = "".join(f"== {log.name}\n{log.read_text()[-2000:]}" for log in self._folder.glob("*.log"))
                raise RuntimeError(f"no {what}; ended: {ended or 'none'}\n{logs}")
            time.sleep(0.1)

    def _stop(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in reversed(self._daemons):
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def _path(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    assert found is not None
    return found

"""The libraries that are compared: how each is found, and how one turn of it is run. Their programs are in peers/."""

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parent / "peers"
ROOT = PROGRAMS.parent.parent
OURS = ("unisono", "private", "shared", "registered", "bf16", "f16", "python")
NAMES = ("limit", "ordinary", *OURS, "mpi4py", "gloo", "openmpi", "mpich")
TIME_LIMIT = 600  # seconds of one turn; a hang is a failure


class LibraryError(Exception):
    """A library's program did not do its work; says why."""


@dataclass(frozen=True)
class Sample:
    """One size in one turn."""

    peer: str
    ranks: int
    bytes: int
    time_us: float


def find_python(*modules: str) -> Path | None:
    """An interpreter that can import the modules: this one, .venv's, the one that --install makes."""
    code = "import importlib.util, sys; sys.exit(not all(importlib.util.find_spec(m) for m in sys.argv[1:]))"
    for python in (Path(sys.executable), ROOT / ".venv/bin/python", ROOT / "build/peers/venv/bin/python"):
        if (
            python.exists()
            and subprocess.run([python, "-c", code, *modules], check=False, capture_output=True).returncode == 0
        ):
            return python
    return None


def run_program(command: list[str | Path], environment: dict[str, str] | None = None) -> str:
    """Standard output of a program that succeeds within the limit."""
    try:
        done = subprocess.run(
            [str(part) for part in command],
            check=False,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
            env=os.environ | (environment or {}),
        )
    except subprocess.TimeoutExpired:
        raise LibraryError(f"{Path(command[0]).name} took longer than {TIME_LIMIT} s") from None
    except OSError as error:
        raise LibraryError(str(error)) from None
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise LibraryError(f"{Path(command[0]).name} ended with {done.returncode}: {last}")
    return done.stdout


def parse_lines(peer: str, output: str) -> list[Sample]:
    """The rows that a program in peers/ prints."""
    rows = [json.loads(line[line.index("{") :]) for line in output.splitlines() if "{" in line]  # a launcher may prefix
    return [Sample(peer, row["ranks"], row["bytes"], row["time_us"]) for row in rows]


def compile_program(compiler: str, source: str, *options: str | Path, name: str = "") -> Path:
    """A program of peers/, built under its own name or another; options may name what it is linked with."""
    if shutil.which(compiler) is None:
        raise LibraryError(f"no {compiler}: bench/compare --install")
    program = ROOT / "build/peers" / (name or Path(source).stem)
    program.parent.mkdir(parents=True, exist_ok=True)
    run_program([compiler, PROGRAMS / source, "-o", program, *options])
    return program


class Peer:
    """A library. `reason`, when set, says why it is left out."""

    name = ""
    title = ""
    sizes: tuple[int, ...] = ()  # the only ones that it is measured at; empty: all

    def __init__(self) -> None:
        self.reason = ""
        self.version = ""

    def prepare(self) -> None:
        """Find it and build its program; sets `reason` when that is not possible."""
        try:
            self.find()
        except LibraryError as failure:
            self.reason = str(failure)

    def find(self) -> None:
        raise NotImplementedError

    def run(self, ranks: int, sizes: list[int], seconds: float, collective: str = "all_reduce") -> list[Sample]:
        raise NotImplementedError

    def turn(self, ranks: int, sizes: list[int], seconds: float, collective: str = "all_reduce") -> list[Sample]:
        """What it takes now; a library that fails is left out from then on, with its reason."""
        wanted = [size for size in sizes if not self.sizes or size in self.sizes]
        if self.reason or not wanted:
            return []
        try:
            return self.run(ranks, wanted, seconds, collective)
        except LibraryError as failure:
            self.reason = str(failure)
            print(f"  {self.title} failed: {failure}", file=sys.stderr)
            return []


def prepare_all(peers: Iterable[Peer], where: str = "") -> None:
    """Prepare each; those that are left out are named with their reasons, and with the group that wants them."""
    for peer in peers:
        peer.prepare()
        if peer.reason:
            print(f"{where}{peer.title}: SKIPPED: {peer.reason}", file=sys.stderr)


class Unisono(Peer):
    """Through `unisono bench`, in C++; send through a program of its own."""

    name, title = "unisono", "unisono"
    options: tuple[str, ...] = ()  # more for `unisono bench`

    def __init__(self, command: Path | None) -> None:
        super().__init__()
        beside = ROOT / ".venv/bin/unisono"
        found = command or (beside if beside.exists() else shutil.which("unisono"))
        self.command = Path(found) if found else None

    def find(self) -> None:
        if self.command is None or not self.command.exists():
            raise LibraryError(f"no command {self.command or 'unisono'}: make build, or --unisono PATH")
        described = subprocess.run(
            ["git", "-C", ROOT, "describe", "--always", "--dirty"], check=False, capture_output=True, text=True
        )
        self.version = described.stdout.strip()

    def build(self, program: str) -> Path:
        """A program of peers/ against the package beside the command."""
        python = self.command.parent / "python"
        code = "import importlib.util as u; print(u.find_spec('unisono').submodule_search_locations[0])"
        package = Path(run_program([python, "-c", code]).strip())
        use = ["-I", package / "include", "-L", package, f"-Wl,-rpath,{package}", "-lunisono"]
        return compile_program("g++", f"{program}.cc", "-O2", "-std=c++20", *use)

    @functools.cached_property
    def send(self) -> Path:
        return self.build("unisono_send")

    def command_line(self, sizes: list[int], seconds: float, file: Path, collective: str = "all_reduce") -> list[str]:
        """Without the number of ranks, which a launcher may know."""
        options = ["--sizes", ",".join(map(str, sizes)), "--seconds", str(seconds), "--json", str(file)]
        return [str(self.command), "bench", collective, *options, *self.options]

    def samples(self, file: Path, collective: str = "all_reduce") -> list[Sample]:
        in_place = collective != "all_to_all"
        rows = json.loads(file.read_text())
        return [Sample(self.name, r["ranks"], r["bytes"], r["time_us"]) for r in rows if r["in_place"] == in_place]

    def run(self, ranks: int, sizes: list[int], seconds: float, collective: str = "all_reduce") -> list[Sample]:
        if collective == "send":
            program = [self.send, str(seconds), *map(str, sizes)]
            return parse_lines(self.name, run_program([self.command, "run", "-n", str(ranks), "--", *program]))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows.json"
            run_program([*self.command_line(sizes, seconds, file, collective), "-n", str(ranks)])
            return self.samples(file, collective)


class UnisonoPrivate(Unisono):
    """The same on memory that stays private: what a program has that makes a new array for every call."""

    name, title = "private", "unisono, private buffers"
    options = ("--memory", "private")


class UnisonoShared(Unisono):
    """The same on buffers from Group::allocate, which copies nothing."""

    name, title = "shared", "unisono, shared buffers"
    options = ("--memory", "shared")


class UnisonoRegistered(Unisono):
    """The same on ordinary memory that was registered."""

    name, title = "registered", "unisono, registered buffers"
    options = ("--memory", "registered")


class UnisonoBf16(Unisono):
    """As many bytes of bf16."""

    name, title, sizes = "bf16", "unisono, bf16", (64 << 20,)
    options = ("--dtype", "bf16")


class UnisonoF16(Unisono):
    """As many bytes of f16."""

    name, title, sizes = "f16", "unisono, f16", (64 << 20,)
    options = ("--dtype", "f16")


class Limit(Peer):
    """What the memory allows: threads that sum the buffers in place, without ranks."""

    name = "limit"
    title = "limit of memory"
    least = 1 << 16  # bytes; below, it would time how its threads meet

    def find(self) -> None:
        options = ["-O3", "-march=native", "-std=c++20", "-pthread"]
        self.program = compile_program("g++", f"{self.name}.cc", *options)

    def run(self, ranks: int, sizes: list[int], seconds: float, collective: str = "all_reduce") -> list[Sample]:
        large = [str(size) for size in sizes if size >= self.least]
        if not large:
            return []
        return parse_lines(self.name, run_program([self.program, collective, str(ranks), str(seconds), *large]))


class Ordinary(Limit):
    """What two ranks can have on memory that neither can map from the other: a bare ring, or the kernel's copy."""

    name = "ordinary"
    title = "limit of ordinary memory"


class UnisonoPython(Peer):
    """The same from Python on a NumPy array, at 8 bytes only: what the interpreter adds."""

    name, title, sizes = "python", "unisono (Python)", (8,)

    def __init__(self, command: Path | None, python: Path | None) -> None:
        super().__init__()
        self.unisono = Unisono(command)
        beside = self.unisono.command.parent / "python" if self.unisono.command else None
        self.python = python or (beside if beside and beside.exists() else Path(sys.executable))

    def find(self) -> None:
        self.unisono.find()
        self.version = self.unisono.version
        code = "import unisono, numpy, sys; print(sys.version.split()[0])"
        try:
            self.version += " with Python " + run_program([self.python, "-c", code]).strip()
        except LibraryError as failure:
            raise LibraryError(f"{self.python} cannot import unisono and numpy ({failure})") from None

    def run(self, ranks: int, sizes: list[int], seconds: float, collective: str = "all_reduce") -> list[Sample]:
        program = [self.python, PROGRAMS / "unisono_numpy.py", str(seconds), *map(str, sizes)]
        command = [self.unisono.command, "run", "-n", str(ranks), "--", *program]
        return parse_lines(self.name, run_program(command))


class Mpi4py(Peer):
    """Open MPI on a NumPy array, from Python."""

    name, title, sizes = "mpi4py", "mpi4py over Open MPI", (8,)

    def find(self) -> None:
        self.openmpi = openmpi()
        self.openmpi.launcher()
        self.python = find_python("mpi4py", "numpy")
        if self.python is None:
            raise LibraryError("no Python with mpi4py: bench/compare --install")
        code = "import mpi4py; print(mpi4py.__version__)"
        self.version = run_program([self.python, "-c", code]).strip()

    def run(self, ranks: int, sizes: list[int], seconds: float, collective: str = "all_reduce") -> list[Sample]:
        program = [self.python, PROGRAMS / "mpi4py_all_reduce.py", str(seconds), *map(str, sizes)]
        return parse_lines(self.name, self.openmpi.job(ranks, program))


class Gloo(Peer):
    """Gloo, as PyTorch ships it."""

    name = "gloo"
    title = "Gloo (PyTorch)"

    def __init__(self, python: Path | None) -> None:
        super().__init__()
        self.python = python

    def find(self) -> None:
        self.python = self.python or find_python("torch")
        if self.python is None:
            raise LibraryError("no Python with torch: bench/compare --install, or --torch-python PATH")
        self.version = "torch " + run_program([self.python, "-c", "import torch; print(torch.__version__)"]).strip()

    def run(self, ranks: int, sizes: list[int], seconds: float, collective: str = "all_reduce") -> list[Sample]:
        with tempfile.TemporaryDirectory() as folder:
            command = [str(self.python), str(PROGRAMS / "gloo_all_reduce.py"), str(seconds), *map(str, sizes)]
            common = os.environ | {"WORLD_SIZE": str(ranks), "INIT_FILE": f"{folder}/store", "GLOO_SOCKET_IFNAME": "lo"}
            logs = [open(f"{folder}/{rank}", "w+") for rank in range(ranks)]  # noqa: SIM115 closed below
            started = [
                subprocess.Popen(command, env=common | {"RANK": str(rank)}, stdout=log, stderr=subprocess.STDOUT)
                for rank, log in enumerate(logs)
            ]
            try:
                return self.collect(started, logs)
            finally:
                for process in started:
                    process.kill()
                    process.wait()
                for log in logs:
                    log.close()

    def collect(self, started: list, logs: list) -> list[Sample]:
        """Wait for the ranks; what rank 0 printed."""
        deadline = time.monotonic() + TIME_LIMIT
        for rank, process in enumerate(started):
            try:
                status = process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise LibraryError(f"rank {rank} took longer than {TIME_LIMIT} s") from None
            if status != 0:
                logs[rank].seek(0)
                last = (logs[rank].read().strip() or "no output").splitlines()[-1]
                raise LibraryError(f"rank {rank} ended with {status}: {last}")
        logs[0].seek(0)
        return parse_lines(self.name, logs[0].read())


class Mpi(Peer):
    """An MPI library of Debian's, which can be there beside another."""

    def __init__(self, name: str, title: str, launch: list[str], environment: dict[str, str]) -> None:
        super().__init__()
        self.name, self.title = name, title
        self.launch, self.environment = launch, environment

    def find(self) -> None:
        self.program = self.build("mpi_collective")
        lines = run_program([self.launcher(), "--version"], self.environment).splitlines()
        self.version = next((line.split()[-1] for line in lines if "Version:" in line or "(Open" in line), "")

    def launcher(self) -> str:
        found = f"mpirun.{self.name}"
        if shutil.which(found) is None:
            raise LibraryError(f"no {found}: bench/compare --install")
        return found

    def build(self, program: str) -> Path:
        """A program of peers/ against this library."""
        return compile_program(f"mpicc.{self.name}", f"{program}.c", "-O2", name=f"{program}_{self.name}")

    def job(self, ranks: int, program: list[str | Path]) -> str:
        """What the ranks of a job printed."""
        return run_program([self.launcher(), *self.launch, "-np", str(ranks), *program], self.environment)

    def run(self, ranks: int, sizes: list[int], seconds: float, collective: str = "all_reduce") -> list[Sample]:
        return parse_lines(self.name, self.job(ranks, [self.program, collective, str(seconds), *map(str, sizes)]))


def openmpi(title: str = "Open MPI", *options: str) -> Mpi:
    """Debian's, for more ranks than cores, and for mpi4py, which would take any MPI that it finds."""
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment = as_root | {"MPI4PY_MPIABI": "openmpi"}
    return Mpi("openmpi", title, ["--oversubscribe", *options], environment)


def make_all(args: Namespace) -> list[Peer]:
    """Every library, ready to be prepared."""
    return [
        Limit(),
        Ordinary(),
        Unisono(args.unisono),
        UnisonoPrivate(args.unisono),
        UnisonoShared(args.unisono),
        UnisonoRegistered(args.unisono),
        UnisonoBf16(args.unisono),
        UnisonoF16(args.unisono),
        UnisonoPython(args.unisono, args.python),
        Mpi4py(),
        Gloo(args.torch_python),
        openmpi(),
        Mpi("mpich", "MPICH", [], {}),
    ]

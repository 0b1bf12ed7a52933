"""Compile the C++ part of the back end. Used by CMake when the package is built beside torch, else at the first import.

    python -m unisono.torch._build                  compile into the cache, unless it is there
    python -m unisono.torch._build --output FILE    compile, and put it there

Needs a C++20 compiler (CXX, else g++) and the headers that torch, Python and this package bring along. This file
imports neither torch nor unisono: CMake runs it as a script before there is a package.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden")
LIBRARIES = ("-ltorch_python", "-ltorch_cpu", "-ltorch", "-lc10")


@dataclass(frozen=True)
class Ground:
    """Where everything is."""

    sources: Path
    """The folder of the .cc files."""
    headers: Path
    """The folder above unisono/*.hpp."""
    library: Path
    """libunisono.so."""

    @staticmethod
    def installed() -> Ground:
        """In the installed package; in a checkout that is imported from its build folder, the checkout's."""
        package = Path(__file__).parent.parent
        if (package / "include").is_dir():
            return Ground(package / "torch" / "csrc", package / "include", package / "libunisono.so")
        checkout = Path(__file__).resolve().parents[3]
        core = importlib.util.find_spec("unisono._core")
        assert core is not None and core.origin is not None
        library = Path(core.origin).parent / "libunisono.so"
        if not library.exists():  # a build folder: the library is where CMake put it
            library = next(Path(core.origin).parents[2].rglob("libunisono.so"), library)
        return Ground(checkout / "bindings" / "torch", checkout / "include", library)


def torch_folder() -> Path:
    """Where torch is installed, without importing it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise ImportError(f"torch is not installed: {sys.executable} -m pip install torch")
    return Path(spec.origin).parent


def _plain_compiler() -> list[str]:
    return shlex.split(os.environ.get("CXX") or "g++")


def compiler() -> list[str]:
    """The compiler's command line, with ccache in front where the build asks for it."""
    command = _plain_compiler()
    launcher = shlex.split(os.environ.get("CMAKE_CXX_COMPILER_LAUNCHER", ""))
    if shutil.which(command[0]) is None:
        raise ImportError(
            f'the PyTorch back end of unisono must be compiled once, and there is no compiler "{command[0]}": '
            "install one (apt-get install g++), or set CXX"
        )
    return [*launcher, *command]


def fingerprint(ground: Ground) -> str:
    """What the result depends on: sources, headers, versions, flags."""
    digest = hashlib.sha256()
    for part in (
        *FLAGS,
        importlib.metadata.version("torch"),
        sysconfig.get_config_var("SOABI") or "",
        *_plain_compiler(),
    ):
        digest.update(part.encode() + b"\0")
    for file in [*sorted(ground.sources.glob("*.[ch]*")), *sorted(ground.headers.rglob("*.hpp"))]:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def build(ground: Ground, output: Path, jobs: int) -> None:
    """Compile everything and move the result to `output` at once, so that nobody ever loads half of it."""
    torch = torch_folder()
    includes = [torch / "include", torch / "include" / "torch" / "csrc" / "api" / "include"]
    includes += [Path(sysconfig.get_path("include")), ground.headers]
    flags = [*FLAGS, *(f"-isystem{path}" for path in includes)]
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=output.parent) as folder:
        units = _units(sorted(ground.sources.glob("*.cc")), Path(folder))
        objects = [unit.with_suffix(".o") for unit in units]

        def compile_one(unit: Path, target: Path) -> None:
            # By its bare name: so ccache knows it again, whatever the folder is called.
            _run([*compiler(), *flags, f"-I{ground.sources}", "-c", unit.name, "-o", target.name], unit.name, folder)

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(compile_one, units, objects))
        made = Path(folder) / output.name
        # No path in it: libunisono.so and torch's libraries are loaded before it, and found by their names.
        link = [*_plain_compiler(), "-shared", "-o", str(made), *map(str, objects)]
        link += [f"-L{ground.library.parent}", "-lunisono", f"-L{torch / 'lib'}", *LIBRARIES, *_standard_library()]
        _run(link, "linking")
        os.replace(made, output)


def _standard_library() -> list[str]:
    """What to link so that the C++ library is torch's, the shared one. Two copies in one process crash in iostreams."""
    asked = [*_plain_compiler(), "-print-file-name=libstdc++.so"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    # Where only the static library is meant for linking, the shared one that programs run with is there all the same.
    return [] if os.path.isabs(found) or "libstdc++" not in found else ["-l:libstdc++.so.6"]


def _units(sources: list[Path], folder: Path, count: int = 2) -> list[Path]:
    """Files that include the sources: reading torch's headers takes long, so it is done twice, not once a source."""
    units = []
    for i in range(count):
        unit = folder / f"unit{i}.cc"
        unit.write_text("".join(f'#include "{source.name}"\n' for source in sources[i::count]))
        units.append(unit)
    return units


def _run(command: list[str], what: str, folder: str | None = None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode != 0:
        errors = "\n".join(line for line in done.stderr.splitlines() if "error" in line)[:2000] or done.stderr[-2000:]
        raise ImportError(
            f"compiling the PyTorch back end of unisono failed at {what}:\n{errors}\n{shlex.join(command)}"
        )


def cache_folder() -> Path:
    """UNISONO_CACHE, else the user's cache folder."""
    chosen = os.environ.get("UNISONO_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unisono"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def cached(ground: Ground | None = None) -> Path:
    """The compiled part in the cache, compiled now if it is not there: by one of several ranks, the others wait."""
    ground = ground or Ground.installed()
    version = importlib.metadata.version("torch")
    folder = cache_folder() / f"torch-{version}-{fingerprint(ground)}"
    output = folder / "_backend.so"
    failure = folder / "failure"
    if output.exists():
        return output
    compiler()  # before a folder is made, and a lock taken
    began = time.time()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / "lock"):
            if failure.exists() and failure.stat().st_mtime >= began:  # another rank has just tried, in our place
                raise ImportError(failure.read_text())
            if not output.exists():
                print(
                    f"unisono: compiling the PyTorch back end for torch {version}, once for this user, into {folder} "
                    "(about a minute on two cores)",
                    file=sys.stderr,
                    flush=True,
                )
                start = time.monotonic()
                try:
                    build(ground, output, len(os.sched_getaffinity(0)))
                except ImportError as error:
                    failure.write_text(str(error))
                    raise
                print(f"unisono: compiled in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    except OSError as error:
        raise ImportError(
            f"the PyTorch back end of unisono must be compiled once, and the cache {folder} cannot be used ({error}): "
            "set UNISONO_CACHE to a folder that can be written"
        ) from error
    return output


def main() -> int:
    """Run from CMake, the Makefile, or by hand."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--output", type=Path, help="where to put it; default: the cache")
    parser.add_argument("--sources", type=Path)
    parser.add_argument("--headers", type=Path)
    parser.add_argument("--library", type=Path)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    try:
        if arguments.sources:
            given = (arguments.sources, arguments.headers, arguments.library)
            ground = Ground(*(path.absolute() for path in given))
        else:
            ground = Ground.installed()
        if arguments.output:
            build(ground, arguments.output.absolute(), arguments.jobs)
        else:
            print(cached(ground))
    except ImportError as error:
        print(f"unisono.torch: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

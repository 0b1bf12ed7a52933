#!/usr/bin/env python3
"""Run the test suites one after the other and say at the end what passed, failed and was skipped.

Every stage runs, also after a failure, so that one run shows all there is to repair. `make test` calls this; a stage
alone: `make test STAGES=cpp`. Reports (JUnit XML) are left in build/reports.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parent.parent
VENV_BIN = ROOT / ".venv" / "bin"
REPORTS = ROOT / "build" / "reports"

# Folders of tests/ whose tests run under a sanitizer in `make test` (all of them in `make test-long`).
TSAN_FOLDERS = ("transport", "engine", "group")
# One thread advances all ranks of the simulator: there is nothing in it for ThreadSanitizer to see.
TSAN_WITHOUT = ("simulation_test",)
ASAN_FOLDERS = ("base", "transport", "rendezvous", "engine", "group")
# The longest, whose code others run as well: `make test-long` has them.
ASAN_WITHOUT = ("simulation_test", "group_memory_test")

# What asks tests for more: Python's for slow cases, C++'s for so many times the seeds.
LONG = {"UNISONO_TEST_LONG": "1", "UNISONO_TEST_SCALE": "10"}


@dataclass
class Result:
    """What one stage counted; `notes` say why something failed or was skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    notes: list[str] = field(default_factory=list)

    def check(self, ok: bool, note: str) -> None:
        """Count one check."""
        if ok:
            self.passed += 1
        else:
            self.failed += 1
            self.notes.append(note)

    def add_junit(self, path: Path) -> None:
        """Add the cases of a JUnit file."""
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                self.failed += 1
                self.notes.append(f"{case.get('classname')}.{case.get('name')}")
            elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
                self.skipped += 1
            else:
                self.passed += 1


@dataclass(frozen=True)
class Settings:
    """How the suites run. `ahead` has the sanitizers' builds that began before their stages, by stage."""

    long: bool
    werror: str
    jobs: int
    ahead: dict[str, Future[Built]] = field(default_factory=dict)


def run(*command: str | Path, env: dict[str, str] | None = None, log: TextIO | None = None) -> bool:
    """Run a command in the root with our .venv first on PATH; whether it succeeded. Its output goes where ours goes, or
    to `log`; then the command runs when nothing else wants a core."""
    print("+", " ".join(str(part) for part in command), file=log, flush=True)
    # What this machine was tuned to is none of the tests' business.
    environment = {**os.environ, "UNISONO_TUNING": "off", **(env or {})}
    environment["PATH"] = f"{VENV_BIN}{os.pathsep}{environment['PATH']}"
    environment["VIRTUAL_ENV"] = str(VENV_BIN.parent)
    idle = ["chrt", "--idle", "0"] if log and shutil.which("chrt") else []
    full = [*idle, *(str(part) for part in command)]
    return subprocess.run(full, cwd=ROOT, env=environment, stdout=log, stderr=log, check=False).returncode == 0


def tracked(*patterns: str) -> list[str]:
    """Files of the repository, also those not committed yet, that match the patterns."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted({name for name in listing.splitlines() if (ROOT / name).is_file()})


def layers(_: Settings) -> Result:
    """Includes and links agree with the table of the house."""
    result = Result()
    result.check(run(sys.executable, "tools/check_layers.py"), "tools/check_layers.py")
    return result


def style(settings: Settings) -> Result:
    """Formatting and static checks; a tool that is not there is named and counted as skipped."""
    result = Result()
    checks: list[tuple[str, list[str]]] = [
        ("clang-format", ["--dry-run", "-Werror", *tracked("*.cc", "*.cpp", "*.h", "*.hpp")]),
        ("ruff", ["check", "."]),
        ("ruff", ["format", "--check", "."]),
        ("mypy", ["--num-workers", str(settings.jobs)]),
    ]
    for tool, arguments in checks:
        path = shutil.which(tool, path=f"{VENV_BIN}{os.pathsep}{os.environ['PATH']}")
        if path is None:
            result.skipped += 1
            result.notes.append(f"SKIPPED {tool}: not installed (tools/requirements-dev.txt has it)")
            continue
        if tool == "clang-format":
            print(f"+ clang-format {' '.join(arguments[:2])} ({len(arguments) - 2} files)", flush=True)
            answer = subprocess.run([path, *arguments], cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
            ok = answer.returncode == 0
            ugly = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", answer.stderr, flags=re.MULTILINE)))
            print("".join(f"{name}: not as clang-format would have it\n" for name in ugly), end="", flush=True)
        else:
            ok = run(path, *arguments)
        result.check(ok, f"{tool} {' '.join(arguments[:2])}".strip() + ("" if tool == "mypy" else " (try make format)"))
    return result


@dataclass(frozen=True)
class Selection:
    """Tests of a preset: those of the given folders of tests/, or all, but for some."""

    folders: tuple[str, ...] = ()
    without: tuple[str, ...] = ("plan_verify_all",)  # the installed command does it, in a stage of its own

    def for_ctest(self) -> list[str]:
        """As options of ctest."""
        labels = ["-L", f"^({'|'.join(self.folders)})$"] if self.folders else []
        return ["-E", f"^({'|'.join(self.without)})$", *labels]


@dataclass(frozen=True)
class Built:
    """What became of a build: nothing went wrong, or what; and its output, where that was not shown."""

    wrong: str = ""
    log: Path | None = None


def build_tests(settings: Settings, preset: str, selection: Selection, log: TextIO | None = None) -> Built:
    """Configure a preset, and build what a selection needs."""
    build = ROOT / "build" / preset
    light = "ON" if selection.folders else "OFF"
    options = (f"-DUNISONO_WERROR={settings.werror}", f"-DUNISONO_SANITIZE_LIGHT={light}")
    if not run("cmake", "--preset", preset, *options, log=log):
        return Built("configuration")
    targets = ["--target", *test_names(build, selection)] if selection.folders else []
    if targets == ["--target"]:
        return Built(f"no test in {', '.join(selection.folders)}")
    if not run("cmake", "--build", build, "--parallel", str(settings.jobs), *targets, log=log):
        return Built("build")
    return Built()


def build_ahead(settings: Settings, preset: str, selection: Selection) -> Built:
    """Build with what other stages leave of the cores: ranks that wait leave half of them."""
    path = REPORTS / f"{preset}-build.log"
    with path.open("w") as log:
        return Built(build_tests(settings, preset, selection, log).wrong, path)


def ctest(settings: Settings, preset: str, selection: Selection) -> Result:
    """Build a preset, unless that was begun already, and run its tests."""
    result = Result()
    build = ROOT / "build" / preset
    reports = REPORTS / preset
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir(parents=True)
    ahead = settings.ahead.get(preset)
    if ahead and not ahead.done():
        print("the build, which began beside other stages, goes on", flush=True)
    built = ahead.result() if ahead else build_tests(settings, preset, selection)
    if built.log:
        print(built.log.read_text() if built.wrong else f"built beside other stages: {built.log}", flush=True)
    if built.wrong:
        result.check(False, f"preset {preset}: {built.wrong}")
        return result
    # Sanitizers stop at the first finding. Every rank of a test is in one process, or inherits this environment.
    env = {
        "GTEST_OUTPUT": f"xml:{reports}/",
        "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
    }
    if settings.long:
        env |= LONG
    programs = REPORTS / f"{preset}-programs.xml"
    how = ["--parallel", str(settings.jobs), "--output-on-failure", "--no-tests=error", "--output-junit", str(programs)]
    run("ctest", "--test-dir", build, *how, *selection.for_ctest(), env=env)
    return count_cases(result, programs, reports)


def test_names(build: Path, selection: Selection) -> list[str]:
    """The names of the tests that a selection gives; a test program has the name of its target."""
    listing = subprocess.run(
        ["ctest", "--test-dir", build, "-N", *selection.for_ctest()], capture_output=True, text=True, check=True
    )
    return re.findall(r"Test +#\d+: (\S+)", listing.stdout)


def count_cases(result: Result, programs: Path, reports: Path) -> Result:
    """Count GoogleTest's cases; a program that failed without a failed case (crash, time-out) counts as one failure."""
    if not programs.exists():
        result.check(False, "ctest left no report")
        return result
    for program in ElementTree.parse(programs).getroot().iter("testcase"):
        name = program.get("name", "")
        cases = Result()
        try:
            for report in reports.glob(f"{name}.xml"):
                cases.add_junit(report)
        except ElementTree.ParseError:
            cases.notes.append(f"{name}: its report is cut short")
        if program.get("status") == "fail" and not cases.failed:
            cases.check(False, f"{name}: crashed, or ran out of time")
        elif program.get("status") == "run" and not cases.passed + cases.skipped:
            cases.check(True, "")  # no GoogleTest program: it is one check
        result.passed += cases.passed
        result.failed += cases.failed
        result.skipped += cases.skipped
        result.notes += cases.notes
    return result


def cpp(settings: Settings) -> Result:
    """C++ tests, optimised build."""
    return ctest(settings, "release", Selection())


def sanitized(preset: str, long: bool) -> Selection:
    """What runs under a sanitizer: all of it, or what is worth its time."""
    if long:
        return Selection()
    return Selection(TSAN_FOLDERS, TSAN_WITHOUT) if preset == "tsan" else Selection(ASAN_FOLDERS, ASAN_WITHOUT)


def tsan(settings: Settings) -> Result:
    """Data races: tests whose ranks are threads, under ThreadSanitizer."""
    return ctest(settings, "tsan", sanitized("tsan", settings.long))


def asan(settings: Settings) -> Result:
    """Memory errors and undefined behaviour: under AddressSanitizer and UndefinedBehaviorSanitizer."""
    return ctest(settings, "asan", sanitized("asan", settings.long))


def python(settings: Settings) -> Result:
    """Python, processes that are killed, examples: all of it over real processes."""
    result = Result()
    report = REPORTS / "python.xml"
    report.unlink(missing_ok=True)
    selection = [] if settings.long else ["-m", "not long"]
    ok = run(
        VENV_BIN / "python",
        "-m",
        "pytest",
        "-q",
        "--durations=25",
        "-n",  # tests wait much; files side by side, for what is in one shares its ranks
        str(min(settings.jobs, 2)),
        "--dist=loadfile",
        f"--junitxml={report}",
        *selection,
        "tests",
        env=LONG if settings.long else {},
    )
    if report.exists():
        result.add_junit(report)
    if not ok and not result.failed:
        result.check(False, "pytest did not finish")
    return result


def package(_: Settings) -> Result:
    """An outside project finds the installed library, builds, and runs; the library shows nothing but its API."""
    result = Result()
    result.check(run("bash", "tests/package/run.sh"), "tests/package/run.sh")
    return result


def plans(settings: Settings) -> Result:
    """The verifier proves every algorithm at every root, for 1 to 33 and 64 ranks (long: 127 and 128)."""
    result = Result()
    most = [] if settings.long else ["--max", "64"]
    result.check(run(VENV_BIN / "unisono", "plan", "--verify-all", *most), "unisono plan --verify-all")
    return result


def wheel(settings: Settings) -> Result:
    """A wheel works in an empty environment where the system's libraries are hidden: in `make test-long`."""
    result = Result()
    if not settings.long:
        result.skipped += 1
        result.notes.append("SKIPPED: it compiles everything once more; make wheel, tests/package/wheel.sh dist/*.whl")
        return result
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    result.check(run("make", "wheel"), "make wheel")
    for path in sorted((ROOT / "dist").glob("*.whl")):
        result.check(run("tests/package/wheel.sh", path, VENV_BIN / "python"), "tests/package/wheel.sh")
    return result


def aarch64(settings: Settings) -> Result:
    """The NEON kernels, cross-compiled for AArch64, under emulation: in `make test-long`."""
    result = Result()
    lacking = [tool for tool in ("aarch64-linux-gnu-g++", "qemu-aarch64") if shutil.which(tool) is None]
    if lacking or not settings.long:
        result.skipped += 1
        reason = f"no {' and no '.join(lacking)}" if lacking else "it compiles for minutes"
        result.notes.append(f"SKIPPED: {reason}; make test-aarch64 installs what it needs, and runs it")
    else:
        result.check(run("bash", "tools/aarch64/test.sh"), "tools/aarch64/test.sh")
    return result


def torches(settings: Settings) -> Result:
    """The PyTorch back end's tests on the newest torch: in `make test-long`."""
    result = Result()
    if not settings.long:
        result.skipped += 1
        result.notes.append("SKIPPED: it takes 5 GB and some minutes; make test-torch VERSION=2.14.1")
        return result
    command = ["tools/test_torch.sh", "2.14.1"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **LONG}, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, flush=True)
    if done.returncode == 77:
        result.skipped += 1
        result.notes.append(done.stdout.strip().rpartition("\n")[2])
    else:
        result.check(done.returncode == 0, " ".join(command))
    return result


STAGES: dict[str, Callable[[Settings], Result]] = {
    stage.__name__: stage for stage in (layers, style, cpp, python, torches, plans, package, wheel, aarch64, tsan, asan)
}


def summarise(results: dict[str, tuple[Result, float]]) -> int:
    """Print the table and the closing line; the exit status."""
    print(f"\n{'stage':<10}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for name, (result, seconds) in results.items():
        print(f"{name:<10}{result.passed:>8}{result.failed:>8}{result.skipped:>9}{seconds:>9.1f}")
    for name, (result, _) in results.items():
        for note in result.notes:
            print(f"  {name}: {note}")
    counts = [sum(getattr(result, kind) for result, _ in results.values()) for kind in ("passed", "failed", "skipped")]
    print("\n{} passed, {} failed, {} skipped".format(*counts), flush=True)
    return int(counts[1] > 0 or counts[0] == 0)


def main() -> int:
    """Parse the command line and run the stages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"of {' '.join(STAGES)}; all when none is named")
    parser.add_argument(
        "--long", action="store_true", help="more seeds, slow cases, every sanitizer over every C++ test"
    )
    parser.add_argument("--werror", choices=("ON", "OFF"), default="ON", help="warnings of the compiler are errors")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compilers at once")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.stages) - set(STAGES))
    if unknown:
        parser.error(f"no stage {', '.join(unknown)}; there are {', '.join(STAGES)}")
    settings = Settings(arguments.long, arguments.werror, arguments.jobs)
    names = arguments.stages or list(STAGES)
    REPORTS.mkdir(parents=True, exist_ok=True)
    beside = ThreadPoolExecutor(1)
    try:
        # Python's tests wait much; where only others run, a build beside them would take from them what it gains.
        for name in names[names.index("python") :] if "python" in names else []:
            if name in ("tsan", "asan"):
                selection = sanitized(name, settings.long)
                settings.ahead[name] = beside.submit(build_ahead, settings, name, selection)
        return summarise({name: timed(name, settings) for name in names})
    finally:
        beside.shutdown(cancel_futures=True)


def timed(name: str, settings: Settings) -> tuple[Result, float]:
    """Run a stage; what it counted, and how many seconds it took."""
    stage = STAGES[name]
    print(f"\n=== {name}: {(stage.__doc__ or '').strip()}", flush=True)
    start = time.monotonic()
    result = stage(settings)
    return result, time.monotonic() - start


if __name__ == "__main__":
    sys.exit(main())

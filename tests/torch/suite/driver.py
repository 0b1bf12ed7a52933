"""PyTorch's own DistributedTest (it ships in torch's wheel) over a back end of our choice; one JSON line a test.

    python driver.py --role plugin --world-size 3 --output FILE [PATTERN...]

Roles: `gloo` is torch's Gloo; `plugin` is unisono under its own name; `impersonator` is unisono standing in for Gloo,
which opens the tests that ask for the string "gloo". The suite's gates that name back ends are opened in all three
alike, so that the sets can be compared.

torch's decorators look at the environment while the module is imported: everything is prepared before that import.
Ranks are forked rather than spawned: this process has loaded torch and never used it.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
import tempfile
import time
import unittest
from typing import Any

ROLES = ("gloo", "plugin", "impersonator")

# Gates of the suite that name back ends although the test needs nothing of theirs.
OPENED = (
    "get_future is only supported",
    "Only gloo backend supports timeouts",
    "GLOO Batch Send Recv CPU",
    "Only Gloo backend supports sparse all reduce",
    "Only MPI supports CPU all_to_all_single",
    "Only MPI supports all_to_all",
    "Only Nccl & Gloo backend support DistributedDataParallel",
)


def prepare(role: str, world_size: int, folder: str) -> str:
    """Set what the suite reads when it is imported, its files in `folder`; the name of the back end."""
    name = "unisono" if role == "plugin" else "gloo"
    os.makedirs(os.path.join(folder, "barrier"))
    os.environ.update(BACKEND=name, WORLD_SIZE=str(world_size), CUDA_VISIBLE_DEVICES="")
    os.environ.update(TEMP_DIR=folder, TMPDIR=folder)
    tempfile.tempdir = folder
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", "100")
    return name


def stand_in_for_gloo() -> None:
    """Make torch take unisono's back end for its ProcessGroupGloo."""
    import torch.distributed.distributed_c10d as c10d
    from unisono.torch import _create, _load

    module = _load.backend()

    class Meta(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, module.Backend)

    class ProcessGroupGloo(metaclass=Meta):
        """What torch calls in place of the constructor."""

        def __new__(cls, store: Any, rank: int, size: int, timeout: Any = None, options: Any = None, **_: Any) -> Any:
            """A group of unisono. Here the default group comes without its name, and others without their members."""
            chosen = module.Options(timeout) if timeout is not None else module.Options()
            return module.Backend(_create.worlds(), store, rank, size, chosen)

    setattr(c10d, "ProcessGroupGloo", ProcessGroupGloo)  # noqa: B010 - a class, to mypy


def open_gates(role: str, name: str) -> Any:
    """Let the tests run that only ask for names; the suite's module."""
    import torch.testing._internal.common_distributed as distributed
    import torch.testing._internal.common_utils as utils

    features = distributed.DistTestCases.backend_feature
    for feature in ("ddp", "subgroup", "gpu", "cuda", "plugin"):
        features[feature].add(name)
    skip: Any = utils.skip_but_pass_in_sandcastle_if
    utils.skip_but_pass_in_sandcastle_if = lambda condition, reason: skip(
        condition and not reason.startswith(OPENED), reason
    )
    # They use ranks 1 and 2 and ask for 8 of them.
    distributed.skip_if_small_worldsize = lambda function: function
    from torch.testing._internal.distributed import distributed_test as suite

    for profiled in (suite.PROFILING_SUPPORTED_BACKENDS, suite.SEND_RECV_PROFILING_SUPPORTED_BACKENDS):
        if role == "plugin":
            profiled.append(name)
        elif (
            role == "impersonator"
        ):  # the profiler shows who we are: unisono:all_reduce. The plugin's tests look at that
            profiled.remove(name)
    return suite


def make_tests(suite: Any) -> type[unittest.TestCase]:
    """The suite's tests as a class whose ranks are forked."""
    import torch.multiprocessing as multiprocessing

    class Suite(suite.TestDistBackend, suite.DistributedTest._DistTestBase):  # type: ignore[misc]
        def setUp(self) -> None:
            super().setUp()
            self._start_processes(multiprocessing.get_context("fork").Process)

    return Suite


class Report(unittest.TestResult):
    """Writes one JSON line for each test that ends."""

    def __init__(self, path: str) -> None:
        """Begin the file."""
        super().__init__()
        self._lines = open(path, "w", encoding="utf-8")  # noqa: SIM115 - open as long as the process

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        """Begins to measure."""
        super().startTest(test)
        self._began = time.monotonic()
        self._outcome, self._why = "passed", ""

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        """Says what became of it."""
        super().stopTest(test)
        seconds = round(time.monotonic() - self._began, 2)
        line = {"test": test._testMethodName, "outcome": self._outcome, "seconds": seconds, "why": self._why}
        print(json.dumps(line), file=self._lines, flush=True)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        """The suite does not want to run it here."""
        super().addSkip(test, reason)
        self._outcome, self._why = "skipped", reason

    def _failed(self, error: Any) -> None:
        self._outcome, self._why = "failed", str(error[1])[-3000:]

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        """An assertion."""
        super().addFailure(test, err)
        self._failed(err)

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        """Anything else, ranks that raised included."""
        super().addError(test, err)
        self._failed(err)


def main() -> int:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--role", choices=ROLES, default="plugin")
    parser.add_argument("--world-size", type=int, default=3)
    parser.add_argument("--output", default="/dev/stdout", help="file for the JSON lines")
    parser.add_argument("patterns", nargs="*", default=["*"], help="names of tests, with * and ?")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="unisono-suite-") as folder:  # the suite leaves its files behind
        return run(arguments, folder)


def run(arguments: argparse.Namespace, folder: str) -> int:
    """Run the tests that match, with `folder` for their files; 1 when one failed."""
    name = prepare(arguments.role, arguments.world_size, folder)
    if arguments.role == "plugin":
        import unisono.torch  # noqa: F401
    if arguments.role == "impersonator":
        stand_in_for_gloo()
    tests = make_tests(open_gates(arguments.role, name))
    report = Report(arguments.output)
    for test in unittest.TestLoader().getTestCaseNames(tests):
        if any(fnmatch.fnmatchcase(test, pattern) for pattern in arguments.patterns):
            unittest.TestSuite([tests(test)]).run(report)
    return int(not report.wasSuccessful())


if __name__ == "__main__":
    sys.exit(main())

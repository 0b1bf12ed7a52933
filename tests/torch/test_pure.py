"""The back end in Python, for machines without a compiler: the tests of the compiled one, over it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch back end needs torch: pip install torch==2.13.0")

import bad_use_cases  # noqa: E402
import collective_cases as collectives  # noqa: E402
import ddp_cases  # noqa: E402
import dtensor_cases  # noqa: E402
import life_cases  # noqa: E402
import numpy as np  # noqa: E402
import pure_cases  # noqa: E402
import work_cases as works  # noqa: E402
from hook_world import World  # noqa: E402
from torch_job import launch, values  # noqa: E402
from unisono.torch import _load  # noqa: E402

PYTHON = {"UNISONO_TORCH_BACKEND": "python"}
TESTS = Path(__file__).parent


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World("unisono", 3, tmp_path_factory.mktemp("ranks"), PYTHON)
    yield world
    world.close()


def test_it_is_the_one_in_python(ranks: World) -> None:
    assert ranks.run(pure_cases.kind) == ["PythonGroup"] * 3


@pytest.mark.parametrize("async_op", [False, True], ids=["blocking", "async"])
@pytest.mark.parametrize("dtype", ["bfloat16", "complex64", "bool"])
@pytest.mark.parametrize("case", [collectives.all_reduce, collectives.reduce, collectives.reduce_scatter])
def test_reductions(ranks: World, case: Callable[..., Any], dtype: str, async_op: bool) -> None:
    ranks.run(case, dtype=dtype, async_op=async_op)


@pytest.mark.parametrize("async_op", [False, True], ids=["blocking", "async"])
@pytest.mark.parametrize("dtype", ["float32", "float8_e5m2"])
@pytest.mark.parametrize("case", [collectives.broadcast_and_gathers, collectives.all_to_all])
def test_movements(ranks: World, case: Callable[..., Any], dtype: str, async_op: bool) -> None:
    ranks.run(case, dtype=dtype, async_op=async_op)


@pytest.mark.parametrize("async_op", [False, True], ids=["blocking", "async"])
@pytest.mark.parametrize("case", [collectives.strided, collectives.coalesced, collectives.sparse])
def test_forms(ranks: World, case: Callable[..., Any], async_op: bool) -> None:
    ranks.run(case, async_op=async_op)


@pytest.mark.parametrize(
    "case",
    [
        collectives.uneven_all_gather,
        collectives.premultiplied_by_a_tensor,
        collectives.nan_wins,
        works.many_at_once,
        works.futures,
        works.futures_hold_what_nccls_do,
        pytest.param(works.results_come_in_the_callers_mode, marks=pytest.mark.long),
        works.messages_come_in_the_callers_mode,
        works.callbacks_may_block,
        works.dropped_work_goes_on,
        works.barriers_complete_what_came_before,
        works.messages,
        works.threads_come_and_go,
        works.groups,
        works.split_group,
        works.refusals,
        works.forms,
        works.numbers_and_options,
        dtensor_cases.objects,
        pure_cases.functional,
        pure_cases.what_it_has_not,
    ],
    ids=lambda case: case.__name__,
)
def test_case(ranks: World, case: Callable[..., Any]) -> None:
    ranks.run(case)


@pytest.mark.skipif(not hasattr(torch.distributed, "gather_single"), reason="this torch has no gather_single")
def test_gather_single(ranks: World) -> None:
    ranks.run(collectives.gather_single, async_op=True)


def test_ddp_computes_what_one_process_does(ranks: World) -> None:
    alone = ddp_cases.alone(3)
    for trained in ranks.run(ddp_cases.trained, options={}):
        np.testing.assert_allclose(trained, alone, rtol=1e-4, atol=1e-5)


def test_ranks_with_and_without_a_compiler_work_together(tmp_path: Path) -> None:
    assert values(launch(pure_cases.mixed, 3, tmp_path)) == [6.0] * 3


def test_a_dead_rank_is_named(tmp_path: Path) -> None:
    ends = launch(life_cases.killed, 3, tmp_path, PYTHON, async_op=True)
    for end in (end for end in ends if end.kinds):
        # Torch makes a RuntimeError of what a future's callback raised in Python.
        assert "RuntimeError" in end.kinds and "DistBackendError" in end.text and "rank 1" in end.text


@pytest.mark.long
def test_a_rank_that_raises_in_backward_is_heard(tmp_path: Path) -> None:
    ends = launch(bad_use_cases.raises_in_backward, 3, tmp_path, PYTHON)
    assert all(end.status == 1 for end in ends)


def test_without_a_compiler_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("UNISONO_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(_load.VARIABLE, raising=False)
    monkeypatch.setattr(_load, "__file__", str(tmp_path / "_load.py"))  # no compiled part lies beside it
    assert _load.backend.__wrapped__().__name__ == "unisono.torch.pure"
    (line,) = capfd.readouterr().err.splitlines()
    assert 'no compiler "no-such-compiler"' in line and "unisono.torch._build" in line
    monkeypatch.setenv(_load.VARIABLE, "compiled")
    with pytest.raises(ImportError, match='no compiler "no-such-compiler"'):
        _load.backend.__wrapped__()


def test_a_build_that_fails_is_tried_once_by_the_ranks_of_a_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CXX", "false")  # a compiler that fails
    monkeypatch.setenv("UNISONO_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(_load.VARIABLE, raising=False)
    monkeypatch.setattr(_load, "__file__", str(tmp_path / "_load.py"))
    assert _load.backend.__wrapped__().__name__ == "unisono.torch.pure"
    compiling, line = capfd.readouterr().err.splitlines()
    assert "compiling" in compiling and "compiling the PyTorch back end of unisono failed" in line
    (failure,) = tmp_path.rglob("failure")
    (told,) = {failure.read_text().splitlines()[0]}
    ahead = time.time() + 1000
    os.utime(failure, (ahead, ahead))  # another rank fails while this one waits for the lock
    assert _load.backend.__wrapped__().__name__ == "unisono.torch.pure"
    (line,) = capfd.readouterr().err.splitlines()
    assert told.rstrip(":") in line


@pytest.mark.long
def test_a_flight_record_that_is_asked_for_is_missed_in_one_line(tmp_path: Path) -> None:
    program = f"""
import torch.distributed as dist
dist.init_process_group("unisono", init_method="file://{tmp_path}/meet", rank=0, world_size=1)
"""
    env = {**os.environ, **PYTHON, "UNISONO_FLIGHT_RECORD": str(tmp_path / "end_")}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    *_, line = done.stderr.splitlines()
    assert "UNISONO_FLIGHT_RECORD" in line and "unisono.torch._build" in line and "Traceback" not in done.stderr


def test_an_unknown_choice_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_load.VARIABLE, "pyhton")
    with pytest.raises(ImportError, match="auto, compiled, python"):
        _load.backend.__wrapped__()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_tests_of_the_compiled_one() -> None:
    """Each file for itself; what compiled_alone.py lists is skipped."""
    failures = []
    for file in sorted(TESTS.glob("test_*.py")):
        if file.name == Path(__file__).name:
            continue
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not long", str(file)]
        done = subprocess.run(command, env={**os.environ, **PYTHON}, capture_output=True, text=True, check=False)
        if done.returncode not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            failures.append(done.stdout[-4000:])
    assert not failures, "\n".join(failures)

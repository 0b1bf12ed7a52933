"""How ranks of the back end "unisono" meet and agree on a secret, and what they read when some do not come."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch back end needs torch: pip install torch==2.13.0")

import joining_cases as cases  # noqa: E402
from torch_job import free_port, launch, values  # noqa: E402

SECRET = "5" * 64


MISSING = [("", [0], "rank 0"), ("", [0, 2], "ranks 0, 2"), (SECRET, [2], "rank 2")]
MORE_MISSING = [("", [1], "rank 1"), ("", [2], "rank 2"), (SECRET, [0], "rank 0"), (SECRET, [0, 2], "ranks 0, 2")]


@pytest.mark.parametrize(
    ("secret", "missing", "named"), [*MISSING, *(pytest.param(*case, marks=pytest.mark.long) for case in MORE_MISSING)]
)
def test_those_who_do_not_come_are_named(tmp_path: Path, secret: str, missing: list[int], named: str) -> None:
    ends = launch(cases.some_do_not_come, 4, tmp_path, env={"UNISONO_SECRET": secret}, missing=missing)
    for rank in set(range(4)) - set(missing):
        assert "DistStoreError" in ends[rank].kinds, ends[rank]
        assert f"missing: {named}." in ends[rank].text, ends[rank].text


def test_a_rank_out_of_range_is_refused_at_once(tmp_path: Path) -> None:
    start = time.monotonic()
    for rank, end in enumerate(launch(cases.out_of_range, 2, tmp_path)):
        assert f"rank {rank + 2} of 2 ranks: ranks go from 0 to 1" in end.text, end
    assert time.monotonic() - start < 40  # the group's time-out is half an hour


@pytest.mark.parametrize("wrong", [0, 1])
def test_wrong_settings_of_one_rank_are_told_to_all(tmp_path: Path, wrong: int) -> None:
    for rank, end in enumerate(launch(cases.one_has_wrong_settings, 3, tmp_path, wrong=wrong)):
        assert "pigeons" in end.text, end
        assert rank == wrong or f"rank {wrong} cannot join" in end.text, end


def test_the_secret_is_not_in_the_store(tmp_path: Path) -> None:
    assert values(launch(cases.spied, 3, tmp_path)) == [["door"], ["joins"], ["joins"]]


def test_groups_in_another_back_ends_world(tmp_path: Path) -> None:
    values(launch(cases.groups_in_another_back_ends_world, 4, tmp_path))


def test_long_timeouts_do_not_pass(tmp_path: Path) -> None:
    values(launch(cases.long_timeouts, 2, tmp_path))


@pytest.mark.parametrize("local", [True, False], ids=["local", "by-port"])
@pytest.mark.parametrize("first", ["torch", "unisono"])
def test_one_master_port_for_both(tmp_path: Path, first: str, local: bool) -> None:
    values(launch(cases.beside_unisono, 2, tmp_path, port=free_port(), first=first, local=local))


BOTH = """
import os, numpy as np, torch, torch.distributed as dist, unisono
def by_torch():
    dist.init_process_group("unisono"); x = torch.ones(3); dist.all_reduce(x); return x[0].item()
def by_unisono():
    x = np.ones(3); unisono.init().all_reduce(x); return x[0]
import sys
order = [by_torch, by_unisono] if sys.argv[1] == "torch" else [by_unisono, by_torch]
os.write(1, b"sums %d %d\\n" % tuple(int(f()) for f in order))  # at once: ranks write side by side
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("launcher", "first"),
    [
        ("torchrun", "unisono"),
        ("unisono", "torch"),
        pytest.param("torchrun", "torch", marks=pytest.mark.long),
        pytest.param("unisono", "unisono", marks=pytest.mark.long),
    ],
)
def test_one_master_port_for_both_under_launchers(tmp_path: Path, launcher: str, first: str) -> None:
    program = tmp_path / "both.py"
    program.write_text(BOTH)
    folder = Path(sys.executable).parent
    command = {
        "torchrun": [str(folder / "torchrun"), "--standalone", "--nproc-per-node=2", str(program), first],
        "unisono": [str(folder / "unisono"), "run", "-n", "2", "--", sys.executable, str(program), first],
    }[launcher]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=100, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("sums 2 2") == 2, done.stdout

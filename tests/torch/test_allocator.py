"""Tensors in shared memory: where they lie, that collectives on them copy nothing, how long they live."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch back end needs torch: pip install torch==2.13.0")

import allocator_cases as cases  # noqa: E402
from torch_job import launch, values  # noqa: E402

pytest_plugins = ["compiled_alone"]


def test_what_lies_in_shared_memory(tmp_path: Path) -> None:
    values(launch(cases.where_tensors_lie, 1, tmp_path))


@pytest.mark.parametrize(("who", "written"), [("all", 2), ("one", 0)])
def test_collectives_copy_nothing_when_all_ranks_take_part(tmp_path: Path, who: str, written: int) -> None:
    # Without the one algorithm that writes to peers' stages.
    env = {"UNISONO_ALGORITHM": "all_reduce@shm:0-=staged_two_shot;all_reduce@shm:0-=shared"}
    assert values(launch(cases.copies_nothing, 3, tmp_path, env=env, who=who)) == [written] * 3


def test_tensors_outlive_their_group(tmp_path: Path) -> None:
    values(launch(cases.outlives_its_group, 2, tmp_path))


def test_freed_memory_is_used_again(tmp_path: Path) -> None:
    assert values(launch(cases.memory_is_used_again, 1, tmp_path))[0] <= 2


def test_a_forked_child_takes_nothing(tmp_path: Path) -> None:
    values(launch(cases.forked, 1, tmp_path))


def test_without_shared_memory(tmp_path: Path) -> None:
    values(launch(cases.without_shared_memory, 2, tmp_path, env={"UNISONO_TRANSPORT": "tcp"}))


def test_wrong_use_is_refused(tmp_path: Path) -> None:
    texts = values(launch(cases.refused, 1, tmp_path))[0]
    for text, word in zip(texts, ["init_process_group", "gloo", "another order", "meta", "bytes"], strict=True):
        assert word in text, texts


@pytest.mark.parametrize("as_view", [False, True], ids=["copied", "view"])
def test_ddp_buckets_are_shared(tmp_path: Path, as_view: bool) -> None:
    env = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}  # torch's own wrapper must pass the request on
    values(launch(cases.ddp, 2, tmp_path, env=env, shared=True, as_view=as_view))


def test_ddp_buckets_are_ordinary_where_the_user_says_so(tmp_path: Path) -> None:
    values(launch(cases.ddp, 2, tmp_path, env={"DDP_DISABLE_COMM_MEM": "1"}, shared=False, as_view=True))


def test_fsdp2_buffers(tmp_path: Path) -> None:
    values(launch(cases.fsdp2, 2, tmp_path))

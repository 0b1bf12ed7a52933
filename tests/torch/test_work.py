"""Asynchronous operations, futures, messages, groups, refusals and the profiler over the back end "unisono"."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch back end needs torch: pip install torch==2.13.0")

import work_cases as cases  # noqa: E402
from hook_world import World  # noqa: E402


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World("unisono", 3, tmp_path_factory.mktemp("ranks"))
    yield world
    world.close()


CASES = [
    cases.many_at_once,
    cases.futures,
    cases.futures_hold_what_nccls_do,
    cases.results_come_in_the_callers_mode,
    cases.messages_come_in_the_callers_mode,
    cases.futures_of_what_only_the_operation_holds,
    cases.callbacks_may_block,
    cases.dropped_work_goes_on,
    cases.barriers_complete_what_came_before,
    cases.messages,
    cases.threads_come_and_go,
    cases.groups,
    cases.split_group,
    cases.refusals,
    cases.forms,
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_case(ranks: World, case: object) -> None:
    ranks.run(case)  # type: ignore[arg-type]


def test_numbers_and_options(ranks: World) -> None:
    assert ranks.run(cases.numbers_and_options) == ["shm"] * 3


@pytest.mark.parametrize("async_op", [False, True], ids=["blocking", "async"])
def test_profiler_sees_names_and_shapes(ranks: World, async_op: bool) -> None:
    for events in ranks.run(cases.profiled, async_op=async_op):
        names = [
            "all_reduce",
            "broadcast",
            "reduce",
            "all_gather",
            "reduce_scatter_tensor",
            "all_to_all",
            "send",
            "recv",
        ]
        assert sorted(name for name, _, _ in events) == sorted(f"unisono:{name}" for name in names)
        shapes = {name: shape for name, shape, _ in events}
        assert shapes["unisono:all_reduce"] == [[4, 2]] and shapes["unisono:reduce_scatter_tensor"] == [[12, 2]]
        assert all(is_async for _, _, is_async in events)

"""Every collective of torch.distributed over the back end "unisono": types, operations, shapes, strides, sizes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch back end needs torch: pip install torch==2.13.0")

import collective_cases as cases  # noqa: E402
import torch_reference as ref  # noqa: E402
from hook_world import World  # noqa: E402

REDUCED = [str(d).split(".")[1] for d in [*ref.REALS, *ref.INTEGERS, *ref.COMPLEX, torch.bool]]
MOVED = [str(d).split(".")[1] for d in ref.ALL]
BOTH = pytest.mark.parametrize("async_op", [False, True], ids=["blocking", "async"])


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World("unisono", 3, tmp_path_factory.mktemp("ranks"))
    yield world
    world.close()


@BOTH
@pytest.mark.parametrize("dtype", REDUCED)
@pytest.mark.parametrize("case", [cases.all_reduce, cases.reduce, cases.reduce_scatter], ids=lambda c: c.__name__)
def test_reductions(ranks: World, case: object, dtype: str, async_op: bool) -> None:
    ranks.run(case, dtype=dtype, async_op=async_op)  # type: ignore[arg-type]


@BOTH
@pytest.mark.parametrize("dtype", MOVED)
@pytest.mark.parametrize("case", [cases.broadcast_and_gathers, cases.all_to_all], ids=lambda c: c.__name__)
def test_movements(ranks: World, case: object, dtype: str, async_op: bool) -> None:
    ranks.run(case, dtype=dtype, async_op=async_op)  # type: ignore[arg-type]


NEW = pytest.mark.skipif(not hasattr(torch.distributed, "gather_single"), reason="this torch has no gather_single")


@NEW
@BOTH
def test_gather_single(ranks: World, async_op: bool) -> None:
    ranks.run(cases.gather_single, async_op=async_op)


@NEW
def test_gather_single_of_the_wrong_size_is_told_to_all(ranks: World) -> None:
    for told in ranks.run(cases.gather_single_of_the_wrong_size):
        assert "must have 3 times as many" in told and "abort" in told, told


@BOTH
def test_strides_do_not_matter(ranks: World, async_op: bool) -> None:
    ranks.run(cases.strided, async_op=async_op)


@BOTH
def test_coalesced(ranks: World, async_op: bool) -> None:
    ranks.run(cases.coalesced, async_op=async_op)


@BOTH
def test_sparse(ranks: World, async_op: bool) -> None:
    ranks.run(cases.sparse, async_op=async_op)


def test_all_gather_of_different_sizes(ranks: World) -> None:
    ranks.run(cases.uneven_all_gather)


def test_premultiplied_by_a_tensor(ranks: World) -> None:
    ranks.run(cases.premultiplied_by_a_tensor)


def test_nan_wins(ranks: World) -> None:
    ranks.run(cases.nan_wins)

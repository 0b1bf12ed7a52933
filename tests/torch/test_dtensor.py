"""DTensor, meshes, functional and differentiable collectives, objects over "unisono": what Gloo does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the PyTorch back end needs torch: pip install torch==2.13.0")

import dtensor_cases as cases  # noqa: E402
from backend_pair import Pair, agree, flat  # noqa: E402

pytest_plugins = ["pair_fixtures"]

CHANGES = [
    *[("S0", "R"), ("S1", "R"), ("P", "R"), ("P", "S0"), ("P", "S1"), ("S0", "S1"), ("S1", "S0"), ("Pavg", "R")],
    ("R", "S1"),
]


@pytest.mark.parametrize(("rows", "columns"), [(8, 12), (7, 5)], ids=["even", "uneven"])
@pytest.mark.parametrize(("start", "end"), CHANGES)
def test_redistribute(pair: Pair, start: str, end: str, rows: int, columns: int) -> None:
    ours, theirs = pair.both(cases.redistributed, start=start, end=end, rows=rows, columns=columns)
    agree(ours, theirs)
    n = pair.size
    factor = {"P": n * (n + 1) / 2, "Pavg": (n + 1) / 2}.get(start, 1)
    for _, full in ours:
        np.testing.assert_allclose(full, flat([cases.matrix(rows, columns)]) * factor, rtol=1e-6)


def test_a_product_along_shards(pair: Pair) -> None:
    for result in pair.run("unisono", cases.product):
        agree(result, cases.product_alone())


def test_tensor_parallel(pair: Pair) -> None:
    for result in pair.run("unisono", cases.made_in_parallel):
        agree(result, cases.made_alone())


def test_a_mesh_of_two_dimensions(pair: Pair) -> None:
    ours, theirs = pair.both(cases.plane)
    agree([result[:3] for result in ours], [result[:3] for result in theirs])
    assert all(result[3] == ["unisono"] * 2 for result in ours)


@pytest.mark.parametrize("case", [cases.functional, cases.differentiable], ids=lambda case: case.__name__)
def test_same_as_gloo(pair: Pair, case: Any) -> None:
    agree(*pair.both(case))


def test_functional_with_gradients(pair: Pair) -> None:
    agree(*pair.both(cases.functional_with_gradients))


def test_objects(pair: Pair) -> None:
    ours, theirs = pair.both(cases.objects)
    assert ours == theirs
    assert [entry["rank"] for entry in ours[0][0]] == list(range(pair.size))

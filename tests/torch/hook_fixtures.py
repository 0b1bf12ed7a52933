"""Fixtures of the tests of hooks, which name this module in `pytest_plugins`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hook_world import World

WORLDS = [("gloo", 3), ("unisono", 2), ("unisono", 3)]
IDS = [f"{backend}-{size}" for backend, size in WORLDS]


@pytest.fixture(scope="session", params=WORLDS, ids=IDS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Ranks for all tests; a test that ends in errors leaves them as they were."""
    backend, size = request.param
    world = World(backend, size, tmp_path_factory.mktemp("world"))
    yield world
    world.close()

"""Fixtures of the tests of hooks, which name this module in `pytest_plugins`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hook_world import World

# Other worlds repeat what the last one shows; all of them are for the long run.
WORLDS = [
    pytest.param(("gloo", 3), id="gloo-3", marks=pytest.mark.long),
    pytest.param(("unisono", 2), id="unisono-2", marks=pytest.mark.long),
    pytest.param(("unisono", 3), id="unisono-3"),
]


@pytest.fixture(scope="session", params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Ranks for all tests; a test that ends in errors leaves them as they were."""
    backend, size = request.param
    world = World(backend, size, tmp_path_factory.mktemp("world"))
    yield world
    world.close()

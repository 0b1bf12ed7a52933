"""Fixtures of the tests of PyTorch's ecosystem, which name this module in `pytest_plugins`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from backend_pair import Pair


@pytest.fixture(scope="session", params=[2, pytest.param(4, marks=pytest.mark.long)], ids=["2-ranks", "4-ranks"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Ranks for all tests of a session; a test that fails has them started anew."""
    pair = Pair(request.param, tmp_path_factory.mktemp("pair"))
    yield pair
    pair.close()

"""Fixtures of the Python tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from harness import Pools


@pytest.fixture(scope="session")
def pools() -> Iterator[Pools]:
    """Jobs that stay: pools(3) is a world of three ranks, pools(3, "tcp") one without shared memory."""
    pools = Pools()
    yield pools
    pools.close()

"""The programs in docs/hooks.md run, each by itself, on all ranks."""

from __future__ import annotations

import re
from pathlib import Path

import hook_cases as cases
import numpy as np
import pytest
from hook_world import World

pytest_plugins = ["hook_fixtures"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "hooks.md"
PROGRAMS = re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_every_program_was_found() -> None:
    assert len(PROGRAMS) == PAGE.read_text().count("```python") >= 7


@pytest.mark.parametrize("program", [source for _, source in PROGRAMS], ids=[title for title, _ in PROGRAMS])
def test_program(world: World, program: str) -> None:
    results = world.run(cases.document, program=program)
    for parameters in results:
        assert np.isfinite(parameters).all()
        assert np.array_equal(parameters, results[0]), "ranks have different gradients or models"

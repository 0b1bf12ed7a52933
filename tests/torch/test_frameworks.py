"""Hugging Face accelerate and Lightning train over "unisono" as over Gloo; only the back end's name differs."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch back end needs torch: pip install torch==2.13.0")

from program_run import ALONE, TORCHRUN, result  # noqa: E402


def needs(module: str) -> pytest.MarkDecorator:
    """Skip where it is not installed; it is not imported here, for that takes seconds."""
    missing = importlib.util.find_spec(module) is None
    return pytest.mark.skipif(missing, reason=f"{module} is not installed: tools/requirements-torch.txt has it")


@pytest.mark.long
@needs("accelerate")
def test_accelerate(tmp_path: Path) -> None:
    ours, theirs = (result(TORCHRUN, "with_accelerate.py", name, tmp_path) for name in ("unisono", "gloo"))
    assert ours["losses"] == pytest.approx(theirs["losses"], rel=1e-4) and ours["losses"][-1] < ours["losses"][0]
    assert ours["seen"] == theirs["seen"] == 3 * 94


@pytest.mark.long
@needs("pytorch_lightning")
def test_lightning(tmp_path: Path) -> None:
    ours, theirs = (result(ALONE, "with_lightning.py", name, tmp_path) for name in ("unisono", "gloo"))
    assert ours["losses"] == pytest.approx(theirs["losses"], rel=1e-4) and ours["losses"][-1] < ours["losses"][0]

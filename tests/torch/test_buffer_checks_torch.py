"""UNISONO_DEBUG=buffers under torch: who changes a tensor of an operation in flight hears of it."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch back end needs torch: pip install torch==2.13.0")

import buffer_check_cases as cases  # noqa: E402
from torch_job import launch, values  # noqa: E402


@pytest.mark.parametrize("backend", ["compiled", "python"])
@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_tensors_that_change(tmp_path: Path, transport: str, backend: str) -> None:
    env = {"UNISONO_DEBUG": "buffers", "UNISONO_TRANSPORT": transport, "UNISONO_TORCH_BACKEND": backend}
    one, other = values(launch(cases.changes, 2, tmp_path, env=env))
    assert other[:6] == [""] * 6
    for at, what in enumerate(["elements 0 to ", "element 1 of the input", "byte"] * 2):
        assert what in one[at] and "changed while it was in flight" in one[at], one[at]
        assert "on rank 0 (host " in one[at], one[at]
    for texts in (one, other):
        assert texts[6].count("of 10 elements (40 B)") == 2 and "Nothing was sent" in texts[6], texts[6:]

"""Children that ranks make by os.fork(), as data loaders do, over the back end "unisono"."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch back end needs torch: pip install torch==2.13.0")

from program_run import start, unisono_run  # noqa: E402

HOWS = ["exit", "raise", "destroy", "drop", "use"]


def test_the_parents_groups_go_on() -> None:
    done = start(unisono_run(), "forks.py", *HOWS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("lives") == 2 * len(HOWS), done.stdout

"""Which back end the environment has the tests run over."""

from __future__ import annotations

import os


def in_python() -> bool:
    """The one in Python, by UNISONO_TORCH_BACKEND."""
    return os.environ.get("UNISONO_TORCH_BACKEND") == "python"

"""Find the compiled part, or have it compiled, and load it."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any

import torch

import unisono._core  # noqa: F401 - loads libunisono.so, which the back end then finds by its name
from unisono.torch import _versions

NAME = "unisono.torch._backend"


@cache
def backend() -> Any:
    """The module unisono.torch._backend. Raises ImportError that says what to do."""
    version = str(torch.__version__).split("+")[0]
    _versions.check(str(torch.__version__))
    installed = Path(__file__).parent / "_backend.so"
    module = _import(installed if installed.exists() else _compiled())
    if version != module.TORCH_VERSION:
        raise ImportError(
            f"{module.__file__} was built for torch {module.TORCH_VERSION}, and this is torch {torch.__version__}: "
            f"build it again with: {sys.executable} -m unisono.torch._build --output {module.__file__}"
        )
    return module


def _compiled() -> Path:
    from unisono.torch import _build  # here, so that `python -m unisono.torch._build` does not find it loaded already

    return _build.cached()


def _import(path: Path) -> Any:
    loader = importlib.machinery.ExtensionFileLoader(NAME, str(path))
    spec = importlib.util.spec_from_file_location(NAME, path, loader=loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise ImportError(
            f"{path} cannot be loaded ({error}). It was built for another torch or unisono; build it again with: "
            f"{sys.executable} -m unisono.torch._build --output {path}"
        ) from error
    sys.modules[NAME] = module
    return module

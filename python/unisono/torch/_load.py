"""Find the compiled part, or have it compiled, and load it; where that cannot be, the one in Python."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import torch

import unisono._core  # noqa: F401 - loads libunisono.so, which the back end then finds by its name
from unisono.torch import _versions

NAME = "unisono.torch._backend"
VARIABLE = "UNISONO_TORCH_BACKEND"
CHOICES = ("auto", "compiled", "python")


@cache
def backend() -> Any:
    """unisono.torch._backend, or unisono.torch.pure in its place. Raises ImportError that says what to do."""
    version = str(torch.__version__).split("+")[0]
    _versions.check(str(torch.__version__))
    choice = os.environ.get(VARIABLE) or CHOICES[0]
    if choice not in CHOICES:
        raise ImportError(f'{VARIABLE} is "{choice}"; it can be {", ".join(CHOICES)}')
    if choice == "python":
        return _in_python(f"{VARIABLE}=python asks for it")
    installed = Path(__file__).parent / "_backend.so"
    try:
        path = installed if installed.exists() else _compiled()
    except ImportError as error:
        if choice == "compiled":
            raise
        return _in_python(str(error).strip().splitlines()[0])
    module = _import(path)
    if version != module.TORCH_VERSION:
        raise ImportError(
            f"{module.__file__} was built for torch {module.TORCH_VERSION}, and this is torch {torch.__version__}: "
            f"build it again with: {sys.executable} -m unisono.torch._build --output {module.__file__}"
        )
    return module


def _in_python(reason: str) -> Any:
    from unisono.torch import pure

    print(
        f"unisono: the PyTorch back end runs in Python, which is slower, for {reason} [the fast one: install g++ and "
        f"run {sys.executable} -m unisono.torch._build; {VARIABLE}=compiled refuses this one]",
        file=sys.stderr,
        flush=True,
    )
    return pure


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

"""The compiled part is loaded for the torch that it was built for, and no other: c10d promises no stable interface."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points, requires
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch back end needs torch: pip install torch==2.13.0")

from unisono.torch import _load, _versions  # noqa: E402

load = _load.backend.__wrapped__  # without the memory of what was loaded before


def test_an_old_torch_is_refused_with_the_command_that_mends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    with pytest.raises(ImportError, match=r"needs torch 2\.10 or newer.*this is torch 2\.9\.1\+cpu") as caught:
        load()
    assert f"{sys.executable} -m pip install torch==2.13.0" in str(caught.value)


@pytest.mark.parametrize("version", ["2.10.0", "2.12.1+cpu", "2.14.0", "2.15.0a0+git1", "3.0.0"])
def test_a_torch_that_was_not_tested_is_tried_with_a_warning(version: str) -> None:
    with pytest.warns(RuntimeWarning, match="was not tested with torch") as caught:
        _versions.check(version)
    assert len(caught) == 1 and version in str(caught[0].message)


@pytest.mark.parametrize("version", _versions.TESTED)
def test_a_tested_torch_is_taken_silently(version: str) -> None:
    _versions.check(version + "+cpu")


def test_torch_finds_the_name_in_both_of_its_groups_of_entry_points() -> None:
    for group in ("torch.backends", "torch.distributed.backends"):
        (found,) = (point for point in entry_points(group=group) if point.name == "unisono")
        found.load()()
        assert "unisono" in torch.distributed.Backend.backend_list


def test_the_extra_never_replaces_the_users_torch() -> None:
    wanted = [line for line in requires("unisono") or [] if line.startswith("torch")]
    assert len(wanted) == 1 and wanted[0].split(";")[0].strip() == "torch"


def test_a_part_built_for_another_torch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stale = SimpleNamespace(TORCH_VERSION="2.9.0", __file__="/somewhere/_backend.so")
    monkeypatch.setenv(_load.VARIABLE, "compiled")
    monkeypatch.setattr(_load, "_import", lambda path: stale)
    with pytest.raises(ImportError, match=r"built for torch 2\.9\.0") as caught:
        load()
    assert "unisono.torch._build --output /somewhere/_backend.so" in str(caught.value)


def test_a_damaged_part_is_refused(tmp_path: Path) -> None:
    damaged = tmp_path / "_backend.so"
    damaged.write_bytes(b"\x7fELF but not really")
    with pytest.raises(ImportError, match="cannot be loaded") as caught:
        _load._import(damaged)
    assert f"unisono.torch._build --output {damaged}" in str(caught.value)


def test_a_compiler_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The first import compiles; without a compiler it says what to install."""
    done = subprocess.run(
        [sys.executable, "-m", "unisono.torch._build", "--output", str(tmp_path / "_backend.so")],
        env={"CXX": "no-such-compiler", "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert 'no compiler "no-such-compiler"' in done.stderr and "apt-get install g++" in done.stderr

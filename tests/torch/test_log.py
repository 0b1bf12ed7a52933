"""UNISONO_LOG=info under torch: which algorithm runs for each kind of call."""

from __future__ import annotations

import re

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch back end needs torch: pip install torch==2.13.0")

from program_run import TORCHRUN, start, unisono_run  # noqa: E402

SETTINGS = {"UNISONO_LOG": "info", "UNISONO_TUNING": "off", "UNISONO_SHARE_MEMORY": "0", "UNISONO_PEER_MEMORY": "0"}


@pytest.mark.parametrize(
    ("transport", "backend"),
    [
        ("shm", "python"),
        ("tcp", "compiled"),
        pytest.param("shm", "compiled", marks=pytest.mark.long),
        pytest.param("tcp", "python", marks=pytest.mark.long),
    ],
)
def test_each_kind_of_call_once(transport: str, backend: str) -> None:
    env = {**SETTINGS, "UNISONO_TRANSPORT": transport, "UNISONO_TORCH_BACKEND": backend}
    launcher = TORCHRUN if transport == "tcp" else unisono_run()
    done = start(launcher, "two_sizes.py", env=env)
    assert done.returncode == 0, done.stderr[-4000:]
    told = re.findall(r"(\S+) over (\w+)\): all_reduce of (.+?): algorithm (\w+) \(", done.stdout + done.stderr)
    assert [line[:3] for line in told] == [
        ("(2", transport, "16 bytes, f32 sum"),
        ("(2", transport, "512K bytes, bf16 sum"),
    ], done.stderr[-4000:]
    assert (told[0][3] == "inline") == (transport == "shm")
    assert told[1][3] != "inline"

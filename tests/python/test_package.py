"""The package as a type checker and a reader see it."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import unisono

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_stub_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "bindings" / "make_stub.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"run bindings/make_stub.py\n{done.stdout}{done.stderr}"


USER = """
import numpy as np
import unisono

world = unisono.init(timeout=30)
x = np.zeros(3)
world.all_reduce(x, unisono.ReduceOp.max)
reveal_type(world.all_reduce(x, "sum", async_op=True))
reveal_type(world.all_gather(x))
reveal_type(world.split(0))
reveal_type(unisono.spawn_threads(2, lambda group: group.rank))
reveal_type(world.recv(bytearray(8)))
reveal_type(world.all_reduce(3.5))
reveal_type(world.reduce(True, op="max"))
world.broadcast(x, root="first")
world.all_reduce("3.0")
"""


def test_types_that_a_user_sees(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(USER)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-incremental",
        "--python-executable",
        sys.executable,
        "user.py",
    ]
    env = {"MYPYPATH": str(ROOT / "python"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path, env=env)
    lines = done.stdout.splitlines()
    revealed = [line.split("Revealed type is ")[1] for line in lines if "Revealed type is " in line]
    assert revealed == [
        '"unisono._core.Work"',
        '"list[Any]"',
        '"unisono._core.Group | None"',
        '"list[int]"',
        '"unisono._core.Received"',
        '"float"',
        '"int | None"',
    ], done.stdout
    errors = [line for line in lines if ": error: " in line]
    assert len(errors) == 2, done.stdout
    assert "user.py:15: error: " in errors[0] and "user.py:16: error: " in errors[1], errors


def test_everything_public_is_documented() -> None:
    assert unisono.__doc__ and set(unisono.__all__) <= set(dir(unisono))
    for name in unisono.__all__:
        thing = getattr(unisono, name)
        if name in ("__version__", "ANY_RANK"):
            continue
        assert inspect.getdoc(thing), name
        if inspect.isclass(thing) and not issubclass(thing, BaseException):
            for member in (member for member in vars(thing) if not member.startswith("_")):
                assert name == "ReduceOp" or inspect.getdoc(getattr(thing, member)), f"{name}.{member}"


@pytest.mark.parametrize(
    "error",
    [
        unisono.RankFailure("rank 3 died", 3, "box", 42),
        unisono.Mismatch("differ", 0, 2),
        unisono.Timeout("late", [1, 2]),
        unisono.SystemError("port in use", 98),
        unisono.InvalidArgument("bad"),
        unisono.Aborted("gone"),
        unisono.AuthenticationError("who are you"),
    ],
)
def test_errors_travel_between_processes(error: unisono.Error) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)
    assert isinstance(again, unisono.Error)


def test_errors_are_also_what_python_calls_them() -> None:
    assert issubclass(unisono.InvalidArgument, ValueError)
    assert issubclass(unisono.Timeout, TimeoutError)
    assert issubclass(unisono.SystemError, OSError) and unisono.SystemError("x", 98).errno == 98


def test_reduce_op() -> None:
    assert [op.name for op in unisono.ReduceOp] == ["sum", "avg", "product", "min", "max", "band", "bor", "bxor"]
    assert unisono.__version__.count(".") == 2

"""`unisono doctor`: what this host gives."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

COMMAND = os.environ.get("UNISONO_COMMAND") or str(Path(sysconfig.get_path("scripts")) / "unisono")


def doctor(*arguments: str, before: str = "", env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """`unisono doctor`, after a shell command such as a ulimit."""
    script = f'{before or ":"}; exec "$0" doctor "$@"'
    return subprocess.run(
        ["sh", "-c", script, COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **(env or {})},
    )


def findings(result: subprocess.CompletedProcess[str]) -> dict[tuple[str, str], dict[str, str]]:
    """By group and name."""
    return {(f["group"], f["name"]): f for f in json.loads(result.stdout)["findings"]}


def test_here_nothing_is_missing() -> None:
    """Where the tests run, ranks can share memory."""
    result = doctor()
    assert result.returncode == 0, result.stdout
    for word in ("memfd", "seals", "pidfd", "large arrays", "loopback", "cores", "within this host"):
        assert word in result.stdout
    assert "missing" not in result.stdout.replace("everything needed is there", "")


def test_json_has_the_same() -> None:
    """One object a finding; cores are those of the affinity mask."""
    result = doctor("--json")
    assert result.returncode == 0
    found = findings(result)
    assert found["processor", "cores"]["value"].split()[0] == str(len(os.sched_getaffinity(0)))
    assert found["job", "within this host"]["value"].startswith("shm")
    assert {f["health"] for f in found.values()} <= {"ok", "note", "warning"}


def test_low_limits_are_warnings_with_advice() -> None:
    """And the exit status stays 0: it works."""
    result = doctor("--json", before="ulimit -n 64")
    assert result.returncode == 0
    files = findings(result)["limits", "open files"]
    assert files["health"] == "warning"
    assert "ulimit -n" in files["advice"]


def test_what_is_missing_is_exit_status_1() -> None:
    """Without descriptors nothing can be passed."""
    result = doctor("--json", before="ulimit -n 5")
    assert result.returncode == 1
    found = findings(result)
    assert any(f["health"] == "missing" and f["advice"] for f in found.values())
    assert found["job", "within this host"]["value"].startswith("tcp")


@pytest.mark.parametrize(
    ("env", "health", "says"),
    [
        ({"UNISONO_RANK": "1", "UNISONO_SIZE": "2", "UNISONO_INIT_METHOD": "unix:@x"}, "ok", "rank 1 of 2"),
        ({"RANK": "1", "WORLD_SIZE": "2"}, "warning", "MASTER_ADDR is not set"),
    ],
)
def test_the_environment_is_explained(env: dict[str, str], health: str, says: str) -> None:
    """Before init() fails with it."""
    finding = findings(doctor("--json", env=env))["job", "environment"]
    assert finding["health"] == health
    assert says in finding["value"]

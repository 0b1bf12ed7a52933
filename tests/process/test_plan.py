"""`unisono plan`: which options go together, what machines can read, and what it says of a choice."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest

COMMAND = os.environ.get("UNISONO_COMMAND") or str(Path(sysconfig.get_path("scripts")) / "unisono")
ROOT = Path(__file__).parents[2]


def plan(arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run it with these words, without what this machine was tuned to."""
    everything = {**os.environ, "UNISONO_TUNING": "off", **env}
    return subprocess.run(
        [COMMAND, "plan", *arguments.split()], capture_output=True, text=True, timeout=60, check=False, env=everything
    )


def read(arguments: str, **env: str) -> Any:
    """What it prints for machines."""
    done = plan(f"{arguments} --json", **env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--list --draw text", "--list has no use for --draw"),
        ("--list all_reduce -n 4", "--list has no use for collective, --ranks"),
        ("--explain all_reduce -n 4 --draw svg", "--explain has no use for --draw"),
        ("--explain all_reduce -n 4 --algorithm ring", "--explain has no use for --algorithm"),
        ("--verify-all --verify", "--verify-all has no use for --verify"),
        ("all_reduce -n 4 --simulate 10g --draw text", "--simulate has no use for --draw"),
        ("all_reduce -n 4 --sizes 1M", "showing a plan has no use for --sizes"),
        ("all_reduce -n 4 -a ring --draw text --json", "--draw or --json: give one of them"),
        ("all_reduce -n 4 -a ring --draw text --rank 1", "--draw or --rank: give one of them"),
        ("all_reduce -n 4 -a ring --verify --rank 1", "--verify or --rank: give one of them"),
        ("all_reduce -n 4 --simulate 10g --bytes 8 --sizes 8", "--sizes or --bytes: give one of them"),
        ("all_reduce -n 4 --simulate 10g -a staged_two_shot", "these are on 4 hosts: --hosts 4 puts them on one"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: str, says: str) -> None:
    done = plan(arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stdout == ""


def test_a_proof_and_a_picture() -> None:
    done = plan("all_reduce -n 4 -a ring --verify --draw text")
    drawn = plan("all_reduce -n 4 -a ring --draw text").stdout
    assert done.returncode == 0
    assert done.stdout.startswith("all_reduce ring, 4 ranks: proved\n")
    assert done.stdout.endswith("\n\n" + drawn)
    done = plan("all_reduce -n 4 -a ring --verify --draw svg")
    assert done.stdout.startswith("<svg")
    assert "proved" in done.stderr


def test_the_readmes_commands_work() -> None:
    for line in (ROOT / "README.md").read_text().splitlines():
        if line.startswith("unisono plan ") and "100000" not in line:
            done = plan(line.split("#")[0].removeprefix("unisono plan "))
            assert done.returncode == 0, (line, done.stderr)


def test_lists_and_proofs_for_machines() -> None:
    rows = read("--list")
    assert {row["collective"] for row in rows} >= {"all_reduce", "all_to_all"}
    text = plan("--list").stdout
    assert all(row["algorithm"] in text and row["summary"] in text for row in rows)
    proof = read("broadcast -n 8 -a binomial --root 3 --verify")
    assert proof["proved"] is True
    assert proof["violations"] == []
    assert proof["steps"] == 3
    assert all(row["proved"] and row["proofs"] > 0 for row in read("--verify-all --max 3"))


def test_a_choice_depends_on_the_cores() -> None:
    few = read("--explain all_reduce -n 4 --bytes 16K --cores 2")
    many = read("--explain all_reduce -n 4 --bytes 16K --cores 4")
    assert (few["cores"], few["algorithm"]) == (2, "staged_one_shot")
    assert (many["cores"], many["algorithm"]) == (4, "staged_return")
    assert any(rule["origin"] == "shared cores" for rule in few["rules"])


def test_what_competes_is_named() -> None:
    said = read("--explain all_reduce -n 4 --bytes 16M --cores 4")
    assert (said["algorithm"], said["rival"]) == ("staged_return", "single_copy")
    text = plan("--explain all_reduce -n 4 --bytes 16M --cores 4").stdout
    assert "not all ranks may read" not in text
    assert text.startswith(
        "all_reduce of 16M bytes between 4 ranks that share memory on 4 cores: staged_return or single"
    )
    alone = read("--explain all_reduce -n 4 --bytes 16M --cores 4", UNISONO_PEER_MEMORY="0")
    assert (alone["algorithm"], alone["rival"]) == ("staged_return", None)
    named = {"UNISONO_ALGORITHM": "all_reduce@shm:0-=single_copy"}
    said = read("--explain all_reduce -n 4 --bytes 16M --cores 4", **named)
    assert (said["algorithm"], said["rival"]) == ("single_copy", None)

"""`unisono bench --tune`: what it measures decides what groups of the same layout do, and nothing else does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sysconfig
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

TUNE = ("bench", "--tune", "--sizes", "2K,32K", "--seconds", "0.002")


def unisono() -> str:
    """The command that was installed beside this Python, or the one that UNISONO_COMMAND names."""
    return os.environ.get("UNISONO_COMMAND") or str(Path(sysconfig.get_path("scripts")) / "unisono")


def run(cache: Path, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k != "UNISONO_TUNING"}
    env = {**kept, "UNISONO_CACHE": str(cache), **variables}
    command = [unisono(), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=env)


def record_of(cache: Path) -> Path:
    (file,) = (f for f in (cache / "tuning").iterdir() if "measured" not in f.name)
    return file


def algorithm_used(cache: Path, tmp_path: Path, *options: str, **variables: str) -> str:
    rows = tmp_path / "rows.json"
    done = run(
        cache, "bench", "all_reduce", "--sizes", "32K", "--iters", "2", "--json", rows, *options, "--check", **variables
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (name,) = {row["algorithm"] for row in json.loads(rows.read_text())}
    return str(name)


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    """A cache folder in which two ranks were tuned; then their table was made to say what no measurement would."""
    cache = tmp_path / "cache"
    done = run(cache, *TUNE, "all_reduce", "-n", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(record_of(cache).read_text())
    record["rules"] = "all_reduce@shm[2]:16K-64K=binomial"
    record_of(cache).write_text(json.dumps(record))
    return cache


def test_everything_is_measured_kept_and_drawn(tmp_path: Path) -> None:
    cache, plot, rows = tmp_path / "cache", tmp_path / "tuned.svg", tmp_path / "rows.json"
    done = run(cache, *TUNE, "-n", "3", "--plot", plot, "--json", rows)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# in force:" in done.stdout
    assert "# chosen:" in done.stdout
    found = json.loads(rows.read_text())
    measured = {(row["collective"], row["memory"], row["algorithm"]) for row in found}
    listed = [line.split() for line in run(cache, "plan", "--list").stdout.splitlines()]
    for collective, algorithm, *place in listed[1:-2]:
        if collective == "barrier" or place[0] in ("several", "peers'"):  # no hosts here, and not everywhere allowed
            continue
        assert (collective, "shared" if algorithm.startswith("shared") else "private", algorithm) in measured
    assert all(row["time_us"] > 0 for row in found)
    for name in ("in_force", "chosen"):
        named = [(row["collective"], row["bytes"], row["memory"]) for row in found if row[name]]
        assert len(named) == len(set(named)) > 0
    record = json.loads(record_of(cache).read_text())
    assert "ranks 0x3\n" in record["topology"]
    assert "all_reduce@shm[3]:" in record["rules"]
    assert record_of(cache).stat().st_mode & 0o777 == 0o600
    assert record_of(cache).parent.stat().st_mode & 0o777 == 0o700
    drawn = ElementTree.parse(plot).getroot()
    space = "{http://www.w3.org/2000/svg}"
    points = {(row["collective"], row["bytes"], row["memory"]) for row in found}
    assert sum(circle.get("class") == "chosen" for circle in drawn.iter(f"{space}circle")) == len(points)
    assert {text.text for text in drawn.iter(f"{space}text")} >= {row["algorithm"] for row in found}


def test_groups_of_the_layout_choose_by_it_and_no_others(tuned: Path, tmp_path: Path) -> None:
    built_in = algorithm_used(tuned, tmp_path, "-n", "2", UNISONO_TUNING="off")
    assert built_in != "binomial"
    assert algorithm_used(tuned, tmp_path, "-n", "2") == "binomial"
    assert algorithm_used(tuned, tmp_path, "-n", "2", UNISONO_TUNING="cached") == "binomial"
    assert algorithm_used(tuned, tmp_path, "-n", "3") != "binomial"
    assert algorithm_used(tuned, tmp_path, "-n", "2", "--transport", "tcp") != "binomial"
    assert algorithm_used(tuned, tmp_path, "-n", "2", UNISONO_ALGORITHM="all_reduce:0-=ring") == "ring"
    assert algorithm_used(tuned, tmp_path, "-n", "2", UNISONO_DETERMINISTIC="1") == built_in


@pytest.mark.parametrize("spoilt", ["{", "rules", "mode"])
def test_a_record_that_cannot_be_used_is_told_once_and_left_alone(spoilt: str, tuned: Path, tmp_path: Path) -> None:
    file = record_of(tuned)
    if spoilt == "mode":
        file.chmod(0o666)
    elif spoilt == "rules":
        file.write_text(file.read_text().replace("=binomial", "=binominal"))
    else:
        file.write_text(spoilt)
    before = file.read_text()
    done = run(tuned, "bench", "all_reduce", "-n", "2", "--sizes", "32K", "--iters", "2", "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("measured rules are not used, the built-in table is instead") == 1
    assert str(file) in done.stderr
    assert file.read_text() == before


def test_tuning_again_keeps_what_it_knew_of_other_collectives(tuned: Path) -> None:
    done = run(tuned, *TUNE, "broadcast", "-n", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    rules = json.loads(record_of(tuned).read_text())["rules"]
    assert rules.startswith("all_reduce@shm[2]:16K-64K=binomial;broadcast@shm[2]:")


def test_nothing_is_kept_when_it_is_off(tmp_path: Path) -> None:
    done = run(tmp_path / "cache", *TUNE, "broadcast", "-n", "2", UNISONO_TUNING="off")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# not kept (UNISONO_TUNING=off)" in done.stdout
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--tune", "--root", "1"), "--tune measures all algorithms"),
        (("--tune", "--algorithm", "ring", "all_reduce"), "--tune measures all algorithms"),
        (("all_reduce", "--plot", "x.svg"), "--plot draws what --tune measures"),
        ((), "which collective?"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    done = run(tmp_path, "bench", *arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stdout == ""


def test_explain_shows_what_was_measured(tuned: Path) -> None:
    said = run(tuned, "plan", "--explain", "all_reduce", "-n", "2", "--bytes", "30K").stdout
    assert re.search(r"all_reduce of 30K bytes between 2 ranks that share memory on \d+ cores?: binomial", said)
    assert "why    tuned rule all_reduce@shm[2]:16K-64K=binomial" in said
    assert "unisono bench --tune" in said
    assert "measured at 32K" in said
    (chosen,) = [line for line in said.splitlines() if line.startswith("* ")]
    assert chosen.split()[1] == "binomial"
    assert chosen.endswith((" us", " ms"))
    assert "all_reduce@shm[2]:16K-64K=binomial   (measured)" in said
    for variables in ({"UNISONO_TUNING": "off"}, {"UNISONO_DETERMINISTIC": "1"}):
        said = run(tuned, "plan", "--explain", "all_reduce", "-n", "2", "--bytes", "30K", **variables).stdout
        assert "(measured)" not in said
    said = run(tuned, "plan", "--explain", "all_reduce", "-n", "3", "--bytes", "30K").stdout
    assert "nothing was measured for 3 ranks on this host: unisono bench --tune -n 3" in said


def test_explain_shows_what_constants_let_expect(tmp_path: Path) -> None:
    explain = ("plan", "--explain", "broadcast", "-n", "4", "--place", "net", "--bytes", "1M")
    assert "no constants are known" in run(tmp_path, *explain).stdout
    slow = "gamma=0.1ns/B; within=1us,0.2us,0.05ns/B; between=50us,3us,8ns/B"
    said = run(tmp_path, *explain, UNISONO_CONSTANTS=slow).stdout
    assert f"constants (UNISONO_CONSTANTS): alpha, gap, beta\n  {slow}" in said
    expected = {line[2:].split()[0]: line.split()[-3:-1] for line in said.splitlines() if " ms  " in line}
    assert expected["flat"] == ["25.22", "ms"]  # three times 1 MiB at 8 ns a byte, latency and messages
    assert set(expected) == {"flat", "binomial", "chain", "scatter_all_gather"}
    wrong = run(tmp_path, *explain, UNISONO_CONSTANTS="gamma=1")
    assert wrong.returncode == 2
    assert "UNISONO_CONSTANTS" in wrong.stderr
    wrong = run(tmp_path, *explain, "--sizes", "1M,64M")
    assert wrong.returncode == 2
    assert "--explain has no use for --sizes" in wrong.stderr


def test_a_word_that_is_none_of_it(tmp_path: Path) -> None:
    done = run(tmp_path, "bench", "all_reduce", "-n", "2", UNISONO_TUNING="maybe")
    assert done.returncode != 0
    assert "UNISONO_TUNING" in done.stderr
    assert "auto, cached or off" in done.stderr

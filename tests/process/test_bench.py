"""`unisono bench`: starts ranks by itself, checks every collective's results, and writes JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

COLLECTIVES = (
    "all_reduce",
    "reduce",
    "broadcast",
    "all_gather",
    "reduce_scatter",
    "gather",
    "scatter",
    "all_to_all",
    "barrier",
)
KEYS = [
    "collective",
    "ranks",
    "bytes",
    "dtype",
    "op",
    "algorithm",
    "transport",
    "time_us",
    "min_us",
    "p5_us",
    "p95_us",
    "max_us",
    "calls",
    "algbw_gbps",
    "busbw_gbps",
    "wrong",
    "in_place",
    "mode",
    "algorithms",
]
BRIEF = ("--iters", "3", "--warmup", "1")


def unisono() -> str:
    """The command that was installed beside this Python, or the one that UNISONO_COMMAND names."""
    return os.environ.get("UNISONO_COMMAND") or str(Path(sysconfig.get_path("scripts")) / "unisono")


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([unisono(), *map(str, arguments)], capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize(("memory", "transport"), [("shared", "shm"), ("shared", "tcp"), ("registered", "shm")])
@pytest.mark.parametrize("collective", COLLECTIVES[:-1])
def test_shared_buffers_are_right(collective: str, memory: str, transport: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    options = ("--sizes", "3M,12M", "--check", "--transport", transport, "--memory", memory, "--json", file, *BRIEF)
    done = run("bench", collective, "-n", "3", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(file.read_text())
    assert all(row["algorithm"].startswith("shared") == (transport == "shm") for row in rows), rows
    assert all(row["wrong"] == 0 for row in rows)


@pytest.mark.parametrize("transport", ["shm", "tcp"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective_is_right(collective: str, transport: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    options = ("--sizes", "8,20K,1M", "--check", "--transport", transport, "--json", file, *BRIEF)
    root = ("--root", "2") if collective in ("reduce", "broadcast", "gather", "scatter") else ()
    done = run("bench", collective, "-n", "3", *options, *root)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# Out of bounds values : 0 OK" in done.stdout
    rows = json.loads(file.read_text())
    sizes = 1 if collective == "barrier" else 3
    placements = 1 if collective in ("barrier", "all_to_all") else 2
    assert len(rows) == sizes * placements
    for row in rows:
        assert list(row) == KEYS
        assert (row["collective"], row["ranks"], row["transport"], row["wrong"]) == (collective, 3, transport, 0)
        assert row["time_us"] > 0
        assert row["algbw_gbps"] == pytest.approx(row["bytes"] / row["time_us"] / 1e3, rel=1e-4)
        assert row["min_us"] <= row["p5_us"] <= row["time_us"] <= row["p95_us"] <= row["max_us"]
        assert row["calls"] == sum(row["algorithms"].values()) == 3
        assert row["algorithms"][row["algorithm"]] == max(row["algorithms"].values())
        assert row["mode"] == ("in-place" if row["in_place"] else "out-of-place")


@pytest.mark.parametrize(
    ("dtype", "op"), [("bf16", "avg"), ("f16", "max"), ("i8", "product"), ("bool", "bxor"), ("u64", "band")]
)
def test_types_and_ops(dtype: str, op: str) -> None:
    done = run("bench", "all_reduce", "-n", "2", "--sizes", "8,33K", "--dtype", dtype, "--op", op, "--check", *BRIEF)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 OK" in done.stdout
    assert f"all_reduce, 2 ranks, transport shm, {dtype} {op}\n" in done.stdout


def test_without_check_says_so(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    done = run("bench", "all_reduce", "-n", "2", "--sizes", "64", "--json", file, *BRIEF)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("N/A") == 2
    assert [row["wrong"] for row in json.loads(file.read_text())] == [None, None]


def test_what_ran_is_shown_not_what_the_table_says(tmp_path: Path) -> None:
    """The table cannot say "inline", and does not know that buffers come to be shared."""
    file = tmp_path / "rows.json"
    options = ("--sizes", "8,16M", "--seconds", "0.3", "--json", file)
    done = run("bench", "all_reduce", "-n", "2", *options)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    rows = json.loads(file.read_text())
    assert [line[-1] for line in lines] == [row["algorithm"] for row in rows]
    assert [list(row["algorithms"]) for row in rows[:2]] == [["inline"]] * 2
    assert "shared" in rows[3]["algorithms"], "large buffers that come back are shared by themselves"
    assert all(len(line) <= 100 for line in done.stdout.splitlines())
    if len(rows[3]["algorithms"]) > 1:
        assert "# 16777216 in: " in done.stdout


@pytest.mark.parametrize(
    ("name", "transport"), [("send_recv", "shm"), ("send_recv", "tcp"), ("send", "shm"), ("recv", "tcp")]
)
def test_messages_there_and_back_and_in_a_stream(name: str, transport: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    options = ("--sizes", "0,8,20K,3M", "--check", "--transport", transport, "--json", file, *BRIEF)
    done = run("bench", name, "-n", "3", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "send_recv, 3 ranks" in done.stdout and "between ranks 0 and 2" in done.stdout
    assert "# Out of bounds values : 0 OK" in done.stdout
    rows = json.loads(file.read_text())
    assert [(row["bytes"], row["mode"]) for row in rows] == [
        (size, mode) for size in (0, 8, 20 << 10, 3 << 20) for mode in ("latency", "bandwidth")
    ]
    for row in rows:
        assert list(row) == KEYS
        assert (row["collective"], row["algorithm"], row["wrong"]) == ("send_recv", None, 0)
        assert 0 < row["min_us"] <= row["time_us"] <= row["max_us"]
        assert row["busbw_gbps"] == row["algbw_gbps"]


@pytest.mark.parametrize("memory", ["private", "shared", "registered"])
def test_messages_from_every_kind_of_memory(memory: str) -> None:
    done = run("bench", "send_recv", "--sizes", "100,5M", "--check", "--memory", memory, "--dtype", "bf16", *BRIEF)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 OK" in done.stdout


def test_messages_within_a_job() -> None:
    alone = run("run", "-n", "1", "--", unisono(), "bench", "send_recv", "--sizes", "8", *BRIEF)
    assert alone.returncode == 1
    assert "send_recv needs two ranks" in alone.stderr + alone.stdout
    pair = run("run", "-n", "2", "--", unisono(), "bench", "send_recv", "--sizes", "8", "--seconds", "0.02", "--check")
    assert pair.returncode == 0, pair.stdout + pair.stderr
    assert pair.stdout.count("0 OK") == 1


def test_ranges_of_sizes(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    sizes = ("--sizes", "8:64:x2,4K:8K:+2K", "--sizes", "100")
    done = run("bench", "broadcast", "-n", "2", *sizes, "--json", file, "--check", *BRIEF)
    assert done.returncode == 0, done.stdout + done.stderr
    found = [row["bytes"] for row in json.loads(file.read_text()) if not row["in_place"]]
    assert found == [8, 16, 32, 64, 4096, 6144, 8192, 100]


@pytest.mark.parametrize(("deterministic", "expected"), [("0", ["binomial", "direct"]), ("1", ["direct", "direct"])])
def test_ranks_that_take_turns_send_few_messages(
    deterministic: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNISONO_TUNING", "off")
    monkeypatch.setenv("UNISONO_DETERMINISTIC", deterministic)
    processors, file = os.sched_getaffinity(0), tmp_path / "rows.json"
    os.sched_setaffinity(0, {min(processors)})
    try:
        job = ("bench", "all_reduce", "-n", "3", "--transport", "tcp", "--sizes", "64K,1M", "--check")
        done = run(*job, "--json", file, *BRIEF)
    finally:
        os.sched_setaffinity(0, processors)
    assert done.returncode == 0, done.stderr
    assert [row["algorithm"] for row in json.loads(file.read_text()) if row["in_place"]] == expected


@pytest.mark.parametrize(
    "collective", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "scatter"]
)
def test_other_processes_memory_is_read_rightly(collective: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    options = ("--sizes", "100,1M,5M", "--algorithm", "single_copy", "--check", "--json", file, *BRIEF)
    done = run("bench", collective, "-n", "3", *options)
    if "UNISONO_PEER_MEMORY" in done.stderr:
        pytest.skip("this system does not let processes read each other's memory (process_vm_readv)")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(row["wrong"] == 0 for row in json.loads(file.read_text()))


def test_a_named_algorithm(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    options = ("--sizes", "100K", "--algorithm", "ring", "--check", "--json", file, *BRIEF)
    done = run("bench", "all_reduce", "-n", "3", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {row["algorithm"] for row in json.loads(file.read_text())} == {"ring"}


@pytest.fixture
def two_nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The first processor stands for one node, the last for another, and nothing runs on those between them."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("SKIPPED: one processor cannot stand for two nodes")
    monkeypatch.setenv("UNISONO_TOPOLOGY", f"numa:2 core:{cpus[-1]} pu:1")
    os.sched_setaffinity(0, {cpus[0], cpus[-1]})
    yield
    os.sched_setaffinity(0, cpus)


@pytest.mark.parametrize(("bind", "algorithm"), [("auto", "staged_nodes"), ("none", None)])
def test_ranks_bound_to_nodes_run_plans_over_nodes(
    bind: str, algorithm: str | None, tmp_path: Path, two_nodes: None
) -> None:
    """Who is where only the launcher says."""
    file = tmp_path / "rows.json"
    done = run("bench", "all_reduce", "-n", "16", "--bind", bind, "--sizes", "256K", "--check", "--json", file,
               "--memory", "private", *BRIEF)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("bound local ranks 0-7 to node 0" in done.stderr) == (bind == "auto")
    (row,) = {row["algorithm"] for row in json.loads(file.read_text())}
    assert (row == "staged_nodes") == (algorithm is not None)


def test_inside_a_running_job() -> None:
    done = run("run", "-n", "2", "--", unisono(), "bench", "all_reduce", "--sizes", "1K", "--check", *BRIEF)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all_reduce, 2 ranks" in done.stdout
    assert done.stdout.count("Out of bounds") == 1


def test_who_runs_already_is_not_bound() -> None:
    done = run("run", "-n", "1", "--", unisono(), "bench", "all_reduce", "--bind", "core")
    assert done.returncode == 2
    assert "--bind is for ranks that are started here" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("all_reduze",), "all_reduce"),
        (("all_reduce", "--dtype", "f8"), "bf16"),
        (("all_reduce", "--op", "median"), "product"),
        (("all_reduce", "--op", "band"), "not defined for f32"),
        (("all_reduce", "--sizes", "8,lots"), "lots"),
        (("all_reduce", "--sizes", ""), "--sizes: "),
        (("all_reduce", "--sizes", "8:64M"), "8:64M:x2"),
        (("all_reduce", "--sizes", "8:64M:x1"), "is not a step"),
        (("all_reduce", "--sizes", "64M:8:x2"), "descends"),
        (("all_reduce", "--sizes", "0:64M:x2"), "does not move"),
        (("all_reduce", "--sizes", "1:64M:+1"), "more than 10000 sizes"),
        (("send_recv", "-n", "1"), "needs two ranks"),
        (("send_recv", "--root", "1"), "no root"),
        (("send_recv", "--algorithm", "ring"), "no algorithms"),
        (("send_recv", "--tune"), "--tune is for collectives"),
        (("all_reduce", "-n", "0"), "at least one rank"),
        (("broadcast", "-n", "2", "--root", "2"), "ranks are 0 to 1"),
        (("all_reduce", "--transport", "pigeon"), "shm and tcp"),
        (("all_reduce", "--algorithm", "magic"), "ring"),
    ],
)
def test_mistakes_start_nothing(arguments: tuple[str, ...], says: str) -> None:
    done = run("bench", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert done.stderr.startswith("unisono bench: ")


def test_sizes_that_do_not_fit_into_memory() -> None:
    done = run("bench", "all_reduce", "-n", "2", "--sizes", "4000000G", *BRIEF)
    assert done.returncode == 1
    assert "bytes of memory that are free: choose smaller --sizes" in done.stderr


def test_a_file_that_cannot_be_written_is_told_before_measuring(tmp_path: Path) -> None:
    done = run("bench", "all_reduce", "--json", tmp_path / "none" / "rows.json")
    assert done.returncode == 1
    assert "cannot write" in done.stderr
    assert done.stdout == ""

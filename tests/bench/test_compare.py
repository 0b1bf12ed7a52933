"""bench/compare: bars are judged turn by turn, what fails is left out with its reason, a short run writes results."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module of bench/."""
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module


def samples(bench: Any, **times: float) -> list[Any]:
    return [bench("libraries").Sample(peer, 2, 8, time) for peer, time in times.items()]


def test_a_ratio_is_one_of_times_of_the_same_turn(bench: Any) -> None:
    figures, bar = bench("figures").Figures(), bench("figures").Bar("here", 2, 8, ("limit",), 0.9)
    for ours, limit in ((10.0, 9.0), (100.0, 90.0), (20.0, 19.0)):
        figures.add("here", samples(bench, unisono=ours, limit=limit))
    row = figures.row(bar)
    assert (row["measured"], row["theirs"], row["speed"], row["verdict"]) == (20, 19, 0.9, "PASS")


def test_the_best_of_the_others_counts_in_each_turn(bench: Any) -> None:
    figures, bar = bench("figures").Figures(), bench("figures").Bar("here", 2, 8, ("a", "b"), 1.5)
    figures.add("here", samples(bench, unisono=1, a=1.4, b=3))
    figures.add("here", samples(bench, unisono=2, a=9, b=2.8))
    row = figures.row(bar)
    assert (row["speed"], row["ratio"], row["verdict"]) == (1.4, pytest.approx(1.4 / 1.5, abs=1e-3), "FAIL")


@pytest.mark.parametrize(("measured", "verdict", "ratio"), [(4.0, "PASS", 2.0), (16.0, "FAIL", 0.5), (0, "PASS", 1000)])
def test_at_most(bench: Any, measured: float, verdict: str, ratio: float) -> None:
    figures, bar = bench("figures").Figures(), bench("figures").Bar("here", 2, 8, most=8)
    figures.add("here", samples(bench, unisono=measured))
    row = figures.row(bar)
    assert (row["verdict"], row["ratio"]) == (verdict, ratio)


def test_what_was_not_measured_says_why(bench: Any) -> None:
    figures = bench("figures").Figures(reasons={"a": "no such program"})
    bar = bench("figures").Bar("here", 2, 8, ("a",), 1.0)
    figures.add("here", samples(bench, unisono=1))
    row = figures.row(bar)
    assert (row["verdict"], row["reason"]) == ("SKIPPED", "no such program")
    assert "SKIPPED (no such program)" in bench("report").bars_table([row])[-1]


def test_a_library_that_fails_is_left_out_from_then_on(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    libraries, calls = bench("libraries"), []

    def run(*arguments: object) -> list[Any]:
        calls.append(arguments)
        raise libraries.LibraryError("it ended with 1")

    peer = libraries.Peer()
    peer.title, peer.run = "Fails", run
    assert peer.turn(2, [8], 0.1) == [] == peer.turn(2, [8], 0.1)
    assert (len(calls), peer.reason) == (1, "it ended with 1")
    assert "Fails failed: it ended with 1" in capsys.readouterr().err


def test_short_turns_go_forwards_and_backwards_and_stay_apart_from_rounds(bench: Any) -> None:
    libraries, figures = bench("libraries"), bench("figures").Figures()
    order: list[str] = []

    def peer(name: str) -> Any:
        def run(ranks: int, sizes: list[int], *_: object) -> list[Any]:
            order.append(name)
            return [libraries.Sample(name, ranks, sizes[0], len(order))]

        made = libraries.Peer()
        made.run = run
        return made

    bench("figures").by_turns(figures, "gather", [peer("a"), peer("b")], 2, 64, 1.0, "gather")
    assert "".join(order) == "abbaabbaabbaab"
    assert figures.of("gather", "a", 2, 64) == []
    assert figures.of("gather, by turns", "a", 2, 64) == [1, 4, 5, 8, 9, 12, 13]


def test_only_what_has_a_partner_takes_short_turns(bench: Any) -> None:
    def turns(*names: str, reason: str = "") -> list[str]:
        peers = [bench("libraries").Peer() for _ in names]
        for peer, name in zip(peers, names, strict=True):
            peer.name, peer.reason = name, reason if name == "limit" else ""
        return [peer.name for peer in bench("all_reduce").beside_limit(peers, 2)]

    assert turns("unisono", "openmpi", "shared") == []
    assert turns("unisono", "openmpi", "shared", "limit", "bf16") == ["unisono", "shared", "limit", "bf16"]
    assert turns("unisono", "shared", "limit", "bf16", reason="no g++") == ["unisono", "bf16"]


def test_a_short_run_writes_what_it_measured(tmp_path: Path) -> None:
    only = ["--only", "unisono,shared", "--ranks", "2", "--sizes", "8,64K", "--rounds", "1", "--seconds", "0.02"]
    command: list[str | Path] = [sys.executable, BENCH / "compare.py", *only, "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode in (0, 1), done.stderr  # 1: slower than a bar, which no test judges
    results = json.loads((tmp_path / "results.json").read_text())
    measured = {(row["library"], row["bytes"]) for row in results["rows"]}
    assert measured == {(library, size) for library in ("unisono", "shared") for size in (8, 64 << 10)}
    reasons = {bar["reason"] for bar in results["bars"] if bar["verdict"] == "SKIPPED"}
    assert "left out by --only" in reasons
    assert "## Bars" in done.stdout


def test_first_calls_are_those_of_new_jobs(bench: Any) -> None:
    first = bench("first_calls")
    job = first.UnisonoFirst(None)
    job.prepare()
    assert job.reason == ""
    for collective in first.ALL:
        measured = job.run(2, [4096, 1 << 16], 0, collective)
        assert [(s.ranks, s.bytes) for s in measured] == [(2, 4096), (2, 1 << 16)]
        assert all(s.time_us > 0 for s in measured)
    figures = bench("figures").Figures()
    figures.add("gather", samples(bench, unisono=2, openmpi=3, mpich=1))
    row = first.judge(figures, "gather", 2, 8)
    assert (row["speed"], row["verdict"], row["mpich_us"]) == (0.5, "FAIL", 1)
    assert "| gather | 2 | 8 B | 2.00 | 3.00 | 1.00 | 0.50 | 1 | FAIL |" in first.to_markdown([row])


def test_a_neighbour_is_counted_while_ranks_wait(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    neighbour = bench("neighbour")
    monkeypatch.setattr(neighbour, "SECONDS", 0.02)
    job = neighbour.WaitingUnisono(None)
    job.prepare()
    assert job.reason == ""
    [sample] = job.run(2, [1])
    assert (sample.peer, sample.ranks) == ("unisono", 2)
    assert sample.time_us > 0


def test_a_job_that_does_not_wait_is_not_counted_beside(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    neighbour = bench("neighbour")
    job = neighbour.WaitingUnisono(None)
    for program, why in (("true", "ended before it waited"), ("echo", "did not wait")):
        monkeypatch.setattr(job, "command", lambda _, program=program: ([program, "waiting"], {}))
        monkeypatch.setattr(job, "count", lambda *_: os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT))  # it has ended
        with pytest.raises(bench("libraries").LibraryError, match=why):
            job.run(2, [1])

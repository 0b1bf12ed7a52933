"""The flight record: what was done last, in a form that torch's own analyser reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the PyTorch back end needs torch: pip install torch==2.13.0")

import record_cases as cases
from torch_job import launch, values

pytest_plugins = ["compiled_alone"]


def test_every_operation_is_recorded(tmp_path: Path) -> None:
    records = values(launch(cases.recorded, 3, tmp_path))
    for rank, record in enumerate(records):
        assert record["rank"] == rank
        entries = record["entries"]
        assert [e["record_id"] for e in entries] == list(range(len(entries)))
        first, second = entries[0], entries[1]
        assert first["profiling_name"] == "gloo:all_reduce" and first["process_group"] == ("0", "default_pg")
        assert first["input_sizes"] == first["output_sizes"] == [[2, 3]] and first["input_dtypes"] == ["Float"]
        assert first["state"] == "completed" and first["duration_ms"] > 0
        assert first["time_created_ns"] < first["time_discovered_completed_ns"]
        assert second["profiling_name"] == "gloo:broadcast" and second["input_dtypes"] == ["BFloat16"]
        assert second["collective_seq_id"] == first["collective_seq_id"] + 1
        assert record["pg_config"]["0"]["ranks"] == "[0, 1, 2]"
    names = [[e["profiling_name"] for e in record["entries"]] for record in records]
    assert "gloo:send 0->1" in names[0] and "gloo:recv 1<-0" in names[1]
    message = next(e for e in records[1]["entries"] if e["is_p2p"])
    assert message["p2p_seq_id"] == 1 and message["state"] == "completed"
    late = records[0]["entries"][-1]
    assert late["profiling_name"] == "gloo:barrier" and late["retired"] and late["state"] == "started"
    assert late["time_discovered_completed_ns"] is None and late["timeout_ms"] == 300


def test_torchs_analyser_finds_the_rank_that_went_astray(tmp_path: Path) -> None:
    values(launch(cases.lost, 3, tmp_path))
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    for rank in range(3):
        (tmp_path / f"dump_{rank}").rename(dumps / f"dump_{rank}")
    command = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", str(dumps), "--prefix", "dump_"]
    done = subprocess.run([*command, "-j"], capture_output=True, text=True, timeout=100, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "broadcast(input_sizes=[[4]], state=started)" in said, said
    assert said.count("all_reduce(input_sizes=[[10]], state=started)") == 2, said
    assert said.count("all_reduce(input_sizes=[[10]], state=completed)") == 9, said


def test_records_are_written_at_the_end_where_asked(tmp_path: Path) -> None:
    program = f"""
import torch, torch.distributed as dist

dist.init_process_group("unisono", init_method="file://{tmp_path}/meet", rank=0, world_size=1)
dist.all_reduce(torch.ones(3))
"""
    env = {**os.environ, "UNISONO_FLIGHT_RECORD": str(tmp_path / "end_")}
    subprocess.run([sys.executable, "-c", program], env=env, check=True, timeout=100)
    assert (tmp_path / "end_0").stat().st_size > 100

"""PyTorch's own DistributedTest over unisono: a slice here, all of it beside Gloo in `make test-long`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="SKIPPED: torch is not installed")
pytest.importorskip("expecttest", reason="SKIPPED: expecttest, which torch's suite needs, is not installed")

SUITE = Path(__file__).parent / "suite"

# One or two tests of each kind: the rest repeats them with other groups, operations and sizes.
SLICE = {
    "plugin": (
        "test_all_gather_object_default_pg",
        "test_all_reduce_full_group_max",
        "test_all_reduce_sum_async",
        "test_all_to_all_group",
        "test_all_to_all_single_unequal_split_complex",
        "test_batch_isend_irecv_gloo_tags",
        "test_broadcast_group",
        "test_DistributedDataParallelCPU_grad_is_view",
        "test_gather",
        "test_get_future",
        "test_isend_torch_profiler",
        "test_send_recv_any_source",
        "test_scatter_group",
        "test_sparse_all_reduce_sum",
    ),
    "impersonator": (
        "test_accumulate_gradients_no_sync_allreduce_hook",
        "test_all_gather_coalesced_group",
        "test_all_reduce_coalesced_sum",
        "test_monitored_barrier_gloo_subgroup",
        "test_reduce_sum",
    ),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("role", sorted(SLICE))
def test_slice(role: str, tmp_path: Path) -> None:
    output = tmp_path / "lines.jsonl"
    command = [sys.executable, str(SUITE / "driver.py"), "--role", role, "--world-size", "3", "--output", str(output)]
    done = subprocess.run([*command, *SLICE[role]], capture_output=True, text=True, timeout=280, check=False)
    outcomes = [json.loads(line) for line in output.read_text().splitlines()]
    bad = [line for line in outcomes if line["outcome"] != "passed"]
    assert not bad, (bad, done.stderr[-2000:])
    assert {line["test"] for line in outcomes} == set(SLICE[role])


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_what_passes_over_gloo_passes_over_unisono() -> None:
    done = subprocess.run([sys.executable, str(SUITE / "compare.py")], capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-10000:] + done.stderr[-3000:]

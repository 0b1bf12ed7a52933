#!/usr/bin/env bash
# torch 2.15.0, a back end that is not torch's, 1 rank: each operation is recorded by torch as well,
# unless that is switched off.
#
# init_process_group() attaches a hook of its flight recorder to every back end but "gloo",
# "nccl-legacy", "xccl" and "fake", without being asked; torch 2.14.1 attaches nothing. On a noisy
# machine of 2 cores an all_reduce of 8 bytes that does nothing took 19 to 48 us, and 11 to 28 us
# with TORCH_FR_BUFFER_SIZE=0. Exits with 1 when the hook is no longer there by default, or is there
# with that variable at 0. Takes 5 GB: this torch is a CUDA build.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check torch==2.15.0 'numpy<3'
cat > "$folder/plugin.py" <<'PROGRAM'
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d


class Nothing(c10d.Backend):
    """A back end whose all_reduce is done at once: among one rank there is nothing to add."""

    def getBackendName(self) -> str:  # noqa: N802
        return "nothing"

    def allreduce(self, tensors, options):
        done = torch.futures.Future()
        done.set_result(tensors)
        return c10d._create_work_from_future(done)


dist.Backend.register_backend("nothing", lambda store, rank, size, timeout: Nothing(rank, size), devices=["cpu"])
dist.init_process_group("nothing", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
x = torch.ones(2)
times = []
for _ in range(9):
    begin = time.perf_counter()
    for _ in range(300):
        dist.all_reduce(x)
    times.append((time.perf_counter() - begin) / 300 * 1e6)
hooks = len(dist.distributed_c10d._world.pg_flight_recorder_hooks)
print(f"torch {torch.__version__}: {hooks} recorders, {statistics.median(times):.1f} us a call", flush=True)
dist.destroy_process_group()
sys.exit(0 if hooks == int(sys.argv[2]) else 1)
PROGRAM
"$folder/venv/bin/python" "$folder/plugin.py" "$folder/one" 1
TORCH_FR_BUFFER_SIZE=0 "$folder/venv/bin/python" "$folder/plugin.py" "$folder/other" 0
echo "as described: torch records the operations of a back end that it does not know"

#!/usr/bin/env bash
# torch 2.13.0 (CPU), back end "gloo", 3 ranks: all_reduce of 8 equal float16 elements gives different sums at different places.
#
# Rank 0 has 2048 everywhere, the others 1. 2050 can be represented, and is what the first four elements are; the other
# four are 2048. bfloat16 likewise: 256 + 1 + 1 is 258 or 256. Each hop adds in 16 bits, and each segment of the vector
# begins its way at another rank, so what is rounded away depends on the place. Exits with 1 when that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check torch==2.13.0 'numpy<3'
cat > "$folder/sums.py" <<'PROGRAM'
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def rank(number: int, ranks: int, path: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=number, world_size=ranks)
    sums = []
    for dtype, large in ((torch.float16, 2048.0), (torch.bfloat16, 256.0)):
        x = torch.full((8,), large if number == 0 else 1.0, dtype=dtype)
        dist.all_reduce(x)
        sums.append(x.tolist())
    if number == 0:
        print(torch.__version__, sums, flush=True)
        as_seen = sums == [[2050.0] * 4 + [2048.0] * 4, [258.0] * 4 + [256.0] * 4]
        sys.exit(0 if as_seen else 1)


if __name__ == "__main__":
    mp.spawn(rank, (3, sys.argv[1] + "/store"), 3)
PROGRAM
"$folder/venv/bin/python" "$folder/sums.py" "$folder"
echo "as described: equal elements have different sums"

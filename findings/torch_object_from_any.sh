#!/usr/bin/env bash
# torch 2.13.0 (CPU), back end "gloo", 2 ranks: recv_object_list without src does not receive from
# any rank.
#
# Its documentation says of src "Will receive from any rank if set to None. Default is ``None``",
# and recv does so. It raises ValueError ("Must specify global_rank or group_rank") before it
# receives anything, and what the sender sent stays: the next recv without a source gets the 8 bytes
# of its lengths. Exits with 1 when that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check torch==2.13.0 'numpy<3'
cat > "$folder/objects.py" <<'PROGRAM'
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def rank(number: int, ranks: int, path: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=number, world_size=ranks)
    documented = "receive from any rank if set to None" in " ".join((dist.recv_object_list.__doc__ or "").split())
    raised = ""
    if number == 1:
        dist.send_object_list(["hello"], dst=0)
    else:
        try:
            dist.recv_object_list([None])
        except ValueError as error:
            raised = str(error)
        sizes = torch.zeros(1, dtype=torch.long)
        source = dist.recv(sizes)
        dist.recv(torch.empty(int(sizes.item()), dtype=torch.uint8), source)
        print(torch.__version__, documented, raised, source, int(sizes.item()), flush=True)
        sys.exit(0 if documented and "Must specify" in raised and source == 1 else 1)


if __name__ == "__main__":
    mp.spawn(rank, (2, sys.argv[1] + "/store"), 2)
PROGRAM
"$folder/venv/bin/python" "$folder/objects.py" "$folder"
echo "as described: recv_object_list needs a source"

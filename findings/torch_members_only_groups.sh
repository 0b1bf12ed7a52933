#!/usr/bin/env bash
# torch 2.14.1, back end "gloo", 3 ranks: after two ranks made a group by themselves, no group of all ranks comes about.
#
# Ranks 0 and 1 call new_group([0, 1], use_local_synchronization=True), as its documentation allows. Then all three call
# new_group(timeout=5 s), and all three get an error when that is over. The number in a group's name is counted up by members
# alone, so that rank 2 calls the second group "1" and the others "2", and they wait for one another under two names.
# With torch 2.13.0 groups that members make do not count, and the second group has three ranks. Exits with 1 when that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check torch==2.14.1 'numpy<3'
cat > "$folder/groups.py" <<'PROGRAM'
import datetime
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def rank(number: int, ranks: int, path: str, said: mp.Queue) -> None:
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=number, world_size=ranks)
    if number < 2:
        group = dist.new_group([0, 1], use_local_synchronization=True)
        x = torch.ones(1)
        dist.all_reduce(x, group=group)
        assert x.item() == 2
    try:
        group = dist.new_group(timeout=datetime.timedelta(seconds=5))
        said.put((number, group.group_name, "made"))
    except Exception as error:
        said.put((number, "", type(error).__name__))


if __name__ == "__main__":
    said = mp.get_context("spawn").Queue()
    mp.spawn(rank, (3, sys.argv[1] + "/store", said), 3)
    seen = sorted(said.get() for _ in range(3))
    print(torch.__version__, seen)
    sys.exit(0 if all(outcome != "made" for _, _, outcome in seen) else 1)
PROGRAM
"$folder/venv/bin/python" "$folder/groups.py" "$folder"
echo "as described: no rank gets the second group"

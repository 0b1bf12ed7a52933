"""The flight record: what this process's groups did last, in the form that torch's own tools read."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

VARIABLE = "UNISONO_FLIGHT_RECORD"


def flight_record() -> dict[str, Any]:
    """The newest operations of all groups of this process, oldest first: 2000, or as many as TORCH_FR_BUFFER_SIZE says.

    A dict with `rank`, `entries` (one a collective or message: group, numbers, name, shapes, times, state) and
    `pg_config` (who is in which group), as torch's Flight Recorder dumps them; without stack traces. Any thread.
    """
    from unisono.torch._create import worlds  # loads the C++ part

    record: dict[str, Any] = worlds().flight_record()
    return record


def dump_flight_record(prefix: str | os.PathLike[str]) -> Path:
    """Write the flight record to the file `prefix` + rank, for `torchfrtrace --prefix`; where it is."""
    record = flight_record()
    path = Path(f"{os.fspath(prefix)}{record['rank']}")
    path.write_bytes(pickle.dumps(record))
    return path


def dump_where_asked() -> None:
    """At the end of the process: where UNISONO_FLIGHT_RECORD says, if it does and there was a group."""
    prefix = os.environ.get(VARIABLE)
    if not prefix:
        return
    try:
        record = flight_record()
    except NotImplementedError as error:
        print(f"unisono: {VARIABLE} is set, but {error}", file=sys.stderr, flush=True)
        return
    if record["entries"]:
        dump_flight_record(prefix)

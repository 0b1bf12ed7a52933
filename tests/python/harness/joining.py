"""Jobs whose ranks are started one by one, without a launcher, and say in JSON what became of them."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from typing import Any

from harness.launch import environment

TIMEOUT = "60"  # of init: far above what an error may take

JOIN = """
import json, time
import unisono
try:
    world = unisono.init()
    world.barrier()
    said = {"joined": True}
except unisono.Error as e:
    said = {"type": type(e).__name__, "rank": getattr(e, "rank", None), "pid": getattr(e, "pid", None),
            "missing": getattr(e, "missing", None), "message": str(e), "at": time.time()}
print(json.dumps(said), flush=True)
"""


class Job:
    """Ranks that are started one by one, without a launcher."""

    def __init__(self, size: int, init_method: str, program: str = JOIN, **variables: str) -> None:
        self.program = program
        self.common = {"UNISONO_SIZE": str(size), "UNISONO_INIT_METHOD": init_method, "UNISONO_INIT_TIMEOUT": TIMEOUT}
        self.common |= {"UNISONO_SECRET": secrets.token_hex(32), "UNISONO_LOG": "info", **variables}
        self.ranks: dict[int, subprocess.Popen[str]] = {}

    def start(self, rank: int, **variables: str) -> subprocess.Popen[str]:
        env = environment({**self.common, "UNISONO_RANK": str(rank), **variables})
        process = subprocess.Popen(
            [sys.executable, "-c", self.program], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.ranks[rank] = process
        return process

    def start_joining(self, rank: int) -> subprocess.Popen[str]:
        """Started, and known in the store."""
        process = self.start(rank)
        assert process.stderr is not None
        for line in process.stderr:
            if "joining group" in line:
                return process
        raise AssertionError(f"rank {rank} did not begin to join")

    def said(self, rank: int) -> dict[str, Any]:
        output, errors = self.ranks[rank].communicate(timeout=float(TIMEOUT) / 2)
        assert output, (rank, self.ranks[rank].returncode, errors)
        report: dict[str, Any] = json.loads(output)
        return report

    def end(self) -> None:
        for process in self.ranks.values():
            process.kill()
            process.communicate()

"""Run a function on n ranks, as real processes, and get back what each returned or raised.

`launch` starts a job for one function; `Pool` keeps a job and runs many in it. A function travels as source: it sees
its arguments and the names in `worker.NAMESPACE` (np, unisono, os, ...), nothing else of its module. Arguments and
results travel as JSON. Everything has a hard time limit: a hang is a failed test.
"""

from harness.launch import free_port, launch, unisono_command
from harness.outcome import Failure, Job, Outcome
from harness.pool import Pool, Pools

__all__ = ["Failure", "Job", "Outcome", "Pool", "Pools", "free_port", "launch", "unisono_command"]

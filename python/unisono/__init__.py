"""Collective communication between processes.

    import numpy as np
    import unisono

    world = unisono.init()           # started by: unisono run -n 4 -- python program.py
    x = np.full(1000, float(world.rank))
    world.all_reduce(x)              # in place; every rank has the sum

Names are those of the C++ library. Arrays are anything with the buffer protocol or DLPack: NumPy, torch on CPU,
array.array, memoryview, bytearray. Errors are exceptions with fields, all under `Error`.
"""

from __future__ import annotations

from unisono._core import (
    ANY_RANK,
    ANY_TAG,
    NULL_RANK,
    Config,
    Context,
    Group,
    Received,
    ReduceOp,
    Registration,
    Store,
    Work,
    __version__,
    make_file_store,
    make_memory_store,
    make_prefix_store,
    make_tcp_store,
    spawn_threads,
    test_all,
    wait_all,
    wait_any,
)
from unisono._world import init
from unisono.errors import (
    Aborted,
    AuthenticationError,
    Error,
    InvalidArgument,
    Mismatch,
    RankFailure,
    SystemError,
    Timeout,
)

__all__ = [
    "ANY_RANK",
    "ANY_TAG",
    "NULL_RANK",
    "Aborted",
    "AuthenticationError",
    "Config",
    "Context",
    "Error",
    "Group",
    "InvalidArgument",
    "Mismatch",
    "RankFailure",
    "Received",
    "ReduceOp",
    "Registration",
    "Store",
    "SystemError",
    "Timeout",
    "Work",
    "__version__",
    "init",
    "make_file_store",
    "make_memory_store",
    "make_prefix_store",
    "make_tcp_store",
    "spawn_threads",
    "test_all",
    "wait_all",
    "wait_any",
]

"""Random sequences of collectives inside one job: whatever is called, all ranks get what NumPy says."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from harness import Pools, reference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

Group = Any
EXAMPLES = 400 if os.environ.get("UNISONO_TEST_LONG") else 40
RANKS = 3

counts = st.one_of(st.integers(0, 40), st.sampled_from([63, 64, 65, 1023, 4096, 65_537]))
dtypes = st.sampled_from(reference.DTYPES)


@st.composite
def calls(draw: st.DrawFn) -> dict[str, Any]:
    """One collective with its arguments."""
    dtype = draw(dtypes)
    return {
        "collective": draw(
            st.sampled_from(
                ["all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter", "reduce_scatter", "barrier"]
            )
        ),
        "dtype": dtype,
        "op": draw(st.sampled_from(reference.ops(dtype))),
        "root": draw(st.integers(0, RANKS - 1)),
        "count": draw(counts),
        "uneven": draw(st.none() | st.lists(st.integers(0, 70), min_size=RANKS, max_size=RANKS)),
        "in_place": draw(st.booleans()),
        "asynchronous": draw(st.booleans()),
        "seed": draw(st.integers(0, 1000)),
    }


def play(world: Group, sequence: list[dict[str, Any]]) -> None:
    rank, n = world.rank, world.size
    pending = []

    def start(call: dict[str, Any]) -> tuple[Any, list[tuple[np.ndarray, np.ndarray]]]:
        """Start one call: its Work or None, and pairs of (memory, what must be in it at the end)."""
        dtype, op, root, count, seed = (call[key] for key in ("dtype", "op", "root", "count", "seed"))
        later = {"async_op": True} if call["asynchronous"] else {}
        uneven = call["uneven"]
        parts = uneven or [count] * n
        more = {"counts": uneven} if uneven else {}
        ends = np.cumsum([0, *parts])
        own = slice(ends[rank], ends[rank + 1])
        whole = [reference.make(dtype, int(ends[-1]), r, seed) for r in range(n)]
        small = [reference.make(dtype, parts[r], r, seed) for r in range(n)]
        plain = [reference.make(dtype, count, r, seed) for r in range(n)]
        x = plain[rank].copy()
        match call["collective"]:
            case "all_reduce":
                out = x if call["in_place"] else np.zeros_like(x)
                checks = [(out, reference.combine(op, plain))]
                if not call["in_place"]:
                    checks.append((x, plain[rank]))
                return world.all_reduce(x, op, out=out, **later), checks
            case "reduce":
                out = x if call["in_place"] else np.zeros_like(x)
                checks = [(out, reference.combine(op, plain))] if rank == root else [(x, plain[rank])]
                return world.reduce(x, root, op, out=out, **later), checks
            case "broadcast":
                return world.broadcast(x, root, **later), [(x, plain[root])]
            case "all_gather" | "gather":
                out = np.zeros(ends[-1], dtype)
                mine = small[rank].copy()
                if call["in_place"] and (rank == root or call["collective"] == "all_gather"):
                    out[own] = mine
                    mine = out[own]
                if call["collective"] == "all_gather":
                    return world.all_gather(mine, out, **more, **later), [(out, np.concatenate(small))]
                checks = [(out, np.concatenate(small))] if rank == root else [(mine, small[rank])]
                return world.gather(mine, out, root, **more, **later), checks
            case "scatter":
                source = whole[root].copy()
                out = source[own] if call["in_place"] and rank == root else np.zeros(parts[rank], dtype)
                work = world.scatter(source if rank == root else None, out, root, **more, **later)
                return work, [(out, whole[root][own])]
            case "reduce_scatter":
                source = whole[rank].copy()
                out = source[own] if call["in_place"] else np.zeros(parts[rank], dtype)
                work = world.reduce_scatter(source, out, op, **more, **later)
                return work, [(out, reference.combine(op, whole)[own])]
            case _:
                return world.barrier(**later), []

    for call in sequence:
        work, checks = start(call)
        assert (work is None) != call["asynchronous"]
        pending.append((work, checks, call))
        if work is None:
            for memory, expected in checks:
                reference.check(memory, expected, call["op"], call)
    for work, checks, call in pending:
        if work is not None:
            work.wait()
        for memory, expected in checks:
            reference.check(memory, expected, call["op"], call)


@pytest.mark.parametrize("transport", ["", "tcp"], ids=["shm", "tcp"])
def test_sequences(pools: Pools, transport: str) -> None:
    # The examples are drawn here, once, and sent to all ranks: they are seeded equally.
    @settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
    )
    @given(st.lists(calls(), min_size=1, max_size=12))
    def sequences(sequence: list[dict[str, Any]]) -> None:
        pools(RANKS, transport).run(play, sequence=sequence)

    sequences()

"""all_reduce inside a host: every library by turns at every size, and what unisono has to reach.

What the memory allows is compared in short turns of its own at 64 MiB, as the memory changes its speed within seconds,
and a round takes minutes.
"""

import sys
from argparse import Namespace

from figures import Bar, Figures, by_turns, turns_of
from libraries import Peer
from report import LARGE

NAME = "all_reduce"
RANKS = (2, 4, 8)  # unless others are asked for
SMALL, MEDIUM, LARGER = 64 << 10, 1 << 20, 16 << 20
PEERS = ("gloo", "openmpi", "mpich")
BESIDE_LIMIT = turns_of(NAME)
BARS = (
    Bar(BESIDE_LIMIT, 2, LARGE, ("limit",), 0.72),
    Bar(NAME, 2, LARGE, ("openmpi", "mpich"), 4.0),
    Bar(NAME, 2, LARGE, ("gloo",), 5.0),
    *(Bar(BESIDE_LIMIT, n, LARGE, ("limit",), 0.6) for n in (4, 8)),
    *(Bar(NAME, n, LARGE, PEERS, 5.0) for n in (4, 8)),
    *(Bar(BESIDE_LIMIT, n, LARGE, ("limit",), 0.92, kind) for n in (2, 4, 8) for kind in ("shared", "registered")),
    *(Bar(NAME, 2, size, ("openmpi",), least) for size, least in ((LARGER, 2.0), (MEDIUM, 1.4), (SMALL, 1.4))),
    *(Bar(NAME, n, size, PEERS, 1.5) for n in (4, 8) for size in (MEDIUM, SMALL)),
    *(Bar(NAME, n, 8, ("openmpi",), 1 / most) for n, most in ((2, 0.75), (4, 0.9), (8, 0.6))),
    Bar(NAME, 4, 8, ("gloo",), 20.0),
    Bar(NAME, 2, 8, most=2.0),
    Bar(NAME, 2, 8, ours="python", most=10.0),
    Bar(NAME, 2, 8, ("mpi4py",), 1.0, "python"),
    *(Bar(BESIDE_LIMIT, 2, LARGE, ("unisono",), 0.8, dtype) for dtype in ("bf16", "f16")),
)


def beside_limit(peers: list[Peer], ranks: int) -> list[Peer]:
    """Those that a bar compares in short turns, if what it compares them with is there, too."""
    there = {peer.name for peer in peers if not peer.reason}
    pairs = [{bar.ours, *bar.against} for bar in BARS if (bar.where, bar.ranks) == (BESIDE_LIMIT, ranks)]
    names = {name for pair in pairs if pair <= there for name in pair}
    return [peer for peer in peers if peer.name in names]


def measure(peers: list[Peer], args: Namespace) -> Figures:
    """All turns of all libraries."""
    figures = Figures()
    for turn in range(args.rounds):
        for ranks in args.ranks or RANKS:
            for peer in (peer for peer in peers if not peer.reason):
                print(f"round {turn + 1}/{args.rounds}, {ranks} ranks: {peer.title}", file=sys.stderr, flush=True)
                figures.add(NAME, peer.turn(ranks, args.sizes, args.seconds))
            if LARGE in args.sizes:
                by_turns(figures, NAME, beside_limit(peers, ranks), ranks, LARGE, args.seconds)
    figures.reasons = {peer.name: peer.reason for peer in peers if peer.reason}
    return figures

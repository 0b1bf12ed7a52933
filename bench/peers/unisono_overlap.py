"""How much of an asynchronous all_reduce is hidden behind a matrix product, and how much of a plain exchange.

usage: unisono run ... -- python unisono_overlap.py BYTES LIBRARY ADDRESS PORT [CALLS]   prints a line of JSON on rank 0

The exchange moves as many bytes between two ranks on one socket, in a thread of its own, and reduces nothing: what a
program of one's own would leave, with no clock and wherever its thread is woken.
LIBRARY is exchange_thread.cc, built; rank 0 listens at ADDRESS. Both take turns.
"""

import ctypes
import json
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import unisono


class Exchange:
    """A plain exchange in the background."""

    def __init__(self, library: str, address: str, port: int, listens: bool, size: int) -> None:
        self.library = ctypes.CDLL(library)
        self.library.exchange_open.restype = ctypes.c_void_p
        self.handle = ctypes.c_void_p(
            self.library.exchange_open(address.encode(), port, int(listens), ctypes.c_size_t(size))
        )

    def begin(self) -> None:
        self.library.exchange_begin(self.handle)

    def wait(self) -> None:
        self.library.exchange_wait(self.handle)

    def close(self) -> None:
        self.library.exchange_close(self.handle)


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    size, library, address, port = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    calls = int(sys.argv[5]) if len(sys.argv) > 5 else 8
    world = unisono.init()
    data = np.ones(size // 4, dtype=np.float32)
    a = np.ones((512, 512), dtype=np.float32)
    plain = Exchange(library, address, port, world.rank == 0, size)

    def reduce() -> None:
        world.all_reduce(data)

    # A product that takes longer than the all_reduce, the same on all ranks.
    alone = statistics.median(timed(reduce) for _ in range(4))
    product = statistics.median(timed(lambda: a @ a) for _ in range(20))
    said = np.array([1.5 * alone / product])
    world.broadcast(said, 0)
    products = max(1, int(said[0]))

    def compute() -> None:
        for _ in range(products):
            a @ a

    def reduce_meanwhile() -> None:
        work = world.all_reduce(data, async_op=True)
        compute()
        work.wait()

    def exchange() -> None:
        plain.begin()
        plain.wait()

    def exchange_meanwhile() -> None:
        plain.begin()
        compute()
        plain.wait()

    turn = (reduce, reduce_meanwhile, compute, exchange_meanwhile, exchange)
    times: dict[str, list[float]] = {call.__name__: [] for call in turn}
    for _ in range(calls):
        for call in turn:
            world.barrier()
            slowest = np.array([timed(call)])
            world.all_reduce(slowest, op="max")
            times[call.__name__].append(float(slowest[0]))
    plain.close()

    def hidden(what: str) -> float:
        exposed = [b - c for b, c in zip(times[f"{what}_meanwhile"], times["compute"], strict=True)]
        return round(1 - statistics.median(exposed) / statistics.median(times[what]), 4)

    if world.rank == 0:
        row = {f"{name}_us": round(statistics.median(t) * 1e6, 1) for name, t in times.items()}
        row |= {"hidden": hidden("reduce"), "exchange_hidden": hidden("exchange")}
        print(json.dumps({"bytes": size, "ranks": world.size, **row}), flush=True)


if __name__ == "__main__":
    main()

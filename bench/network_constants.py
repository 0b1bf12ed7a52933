"""One rank of a job: what a message costs, small ones between pairs and large ones around a ring of all ranks.

bench/simulation.py starts it.

Rank 0 prints a JSON object: L, o (seconds), G (seconds a byte): medians over repetitions, the mean over pairs.
"""

import json
import statistics
import time

import numpy as np
import unisono

ROUNDS = 200
TRAIN = 64  # small messages in a row
LARGE = 256 << 10  # bytes, as a slice has
FEW, MANY = 2, 10  # so many large ones in a row


def seconds(repetitions: int, once) -> float:
    """The median time of a call."""
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        once()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def one_way(world, first: bool, peer: int, payload: np.ndarray, messages: int, repetitions: int) -> float:
    """Time for `messages` to a peer that answers the last one with 8 bytes."""
    answer = np.zeros(1)

    def once() -> None:
        if first:
            for _ in range(messages):
                world.send(payload, dst=peer)
            world.recv(answer, src=peer)
        else:
            for _ in range(messages):
                world.recv(payload, src=peer)
            world.send(answer, dst=peer)

    once()
    return seconds(repetitions, once)


def around(world, payload: np.ndarray, messages: int, repetitions: int) -> float:
    """Time for `messages` to the next rank while as many come from the one before: links carry data and answers."""
    right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    arrived = [np.zeros_like(payload) for _ in range(messages)]

    def once() -> None:
        receives = [world.irecv(into, src=left) for into in arrived]
        for _ in range(messages):
            world.send(payload, dst=right)
        for receive in receives:
            receive.wait()

    once()
    return seconds(repetitions, once)


def main() -> None:
    """Measure, and let rank 0 print."""
    world = unisono.init()
    first, peer = world.rank % 2 == 0, world.rank ^ 1
    both_ways = one_way(world, first, peer, np.zeros(1), 1, ROUNDS)
    train = one_way(world, first, peer, np.zeros(1), TRAIN, ROUNDS // 4)
    few, many = (around(world, np.zeros(LARGE // 8), messages, 7) for messages in (FEW, MANY))
    per_message = (train - both_ways) / (TRAIN - 1)
    per_byte = (many - few) / ((MANY - FEW) * LARGE)
    mine = np.array([both_ways / 2, per_message, per_byte])
    half, overhead, rate = np.mean(world.all_gather(mine)[::2], axis=0)
    if world.rank == 0:
        print(json.dumps({"o": overhead, "L": max(half - 2 * overhead, 0), "G": rate, "half_round_trip": half}))


main()

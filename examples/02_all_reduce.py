"""All-reduce and its operations: combine arrays of all ranks, element by element.

unisono run -n 4 -- python examples/02_all_reduce.py
"""

import numpy as np
import unisono

world = unisono.init()
n = world.size


def show(what: str, x: np.ndarray, expected: np.ndarray) -> None:
    """Print on rank 0; every rank checks that it has the same."""
    np.testing.assert_allclose(x, expected)
    if world.rank == 0:
        print(f"{what:<24}{x}")


ranks = np.arange(1, n + 1)
mine = np.array([1.0, 2.0, 3.0]) * (world.rank + 1)

# In place. The default is the sum: values grow with the number of ranks; for the mean say so.
x = mine.copy()
world.all_reduce(x)
show("sum", x, np.array([1.0, 2.0, 3.0]) * ranks.sum())

# Or into another array: mine stays as it is.
for op, expected in {"avg": ranks.mean(), "min": ranks.min(), "max": ranks.max()}.items():
    world.all_reduce(mine, op, out=x)
    show(op, x, np.array([1.0, 2.0, 3.0]) * expected)
world.all_reduce(mine, unisono.ReduceOp.product, out=x)
show("product", x, np.array([1.0, 2.0, 3.0]) ** n * np.prod(ranks))

# Bits, of integers and bool.
bits = np.array([1 << world.rank], dtype=np.uint32)
world.all_reduce(bits, "bor")
show("bor of 1 << rank", bits, np.array([2**n - 1]))

# Only one rank gets it: reduce leaves the others' arrays alone.
x = mine.copy()
world.reduce(x, root=n - 1)
assert np.array_equal(x, mine) or world.rank == n - 1

# What makes no sense is an error before anything is sent.
try:
    world.all_reduce(x, "bor")
except unisono.InvalidArgument as error:
    if world.rank == 0:
        print(f"bor of floats:          {error}")
else:
    raise AssertionError("the bits of floats were combined")
world.destroy()

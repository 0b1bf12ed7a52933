"""Elements of every type: complex numbers are reduced, all but Python objects is moved."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy
import pytest
import unisono
from harness import Pools, elements

Group = Any


def moves(world: Group) -> None:
    import numpy
    from harness import elements

    rank, n = world.rank, world.size
    for dtype in elements.MOVED:
        for count in (0, 1, 7, 5000):
            parts = [elements.filled(dtype, count, seed) for seed in range(n)]
            mine, everyone = parts[rank], elements.joined(parts)
            assert all(elements.same(a, b) for a, b in zip(world.all_gather(mine), parts, strict=True)), dtype
            out = numpy.empty(n * count, dtype)
            world.all_gather(mine, out)
            assert elements.same(out, everyone), dtype
            x = elements.joined([mine])
            world.broadcast(x, n - 1)
            assert elements.same(x, parts[-1]), dtype
            gathered = world.gather(mine, root=0)
            assert rank or all(elements.same(a, b) for a, b in zip(gathered, parts, strict=True)), dtype
            x = numpy.empty(count, dtype)
            world.scatter(everyone, x)
            assert elements.same(x, mine), dtype
            assert elements.same(world.all_to_all(elements.joined([mine] * n)), everyone), dtype
            counts = [count + q for q in range(n)]
            uneven = [elements.filled(dtype, c, 50 + q) for q, c in enumerate(counts)]
            pieces = world.all_gather(uneven[rank], counts=counts)
            assert all(elements.same(a, b) for a, b in zip(pieces, uneven, strict=True)), dtype


def complex_numbers(world: Group) -> None:
    import numpy

    rank, n = world.rank, world.size
    for dtype in ("c8", "c16"):
        for count in (0, 1, 2, 3, 1001, 70_001):
            real, imaginary = numpy.arange(count) % 3 - 1, 1 - numpy.arange(count) % 2
            inputs = [(real + q + imaginary * 1j).astype(dtype) for q in range(n)]
            total = numpy.sum(inputs, axis=0)
            x = inputs[rank].copy()
            world.all_reduce(x)
            assert numpy.array_equal(x, total), (dtype, count)
            world.all_reduce(inputs[rank], "avg", out=x)
            assert numpy.allclose(x, total / n), (dtype, count)
            assert numpy.array_equal(world.reduce_scatter(numpy.tile(inputs[rank], n)), total)
            world.reduce(inputs[rank], n - 1, out=x)
            assert rank != n - 1 or numpy.array_equal(x, total)
            product = numpy.prod(inputs, axis=0)  # of small integers: exact
            world.all_reduce(inputs[rank], "product", out=x)
            assert numpy.array_equal(x, product), (dtype, count)
            assert numpy.array_equal(world.reduce_scatter(numpy.tile(inputs[rank], n), op="product"), product)
            world.reduce(inputs[rank], n - 1, "product", out=x)
            assert rank != n - 1 or numpy.array_equal(x, product)
            x = numpy.repeat(inputs[rank], 2)
            world.all_reduce(x[::2], "product")
            assert numpy.array_equal(x[::2], product)
            assert numpy.array_equal(x[1::2], inputs[rank])


def in_another_slot(world: Group) -> None:
    import numpy

    rank, n = world.rank, world.size
    for count in (1, 5, 60_000):
        for dtype in ("f8", "c16", "S3"):
            parts = [numpy.full(count, q + 1).astype(dtype) for q in range(n)]
            for asynchronous in (False, True):
                out = numpy.zeros(n * count, dtype)
                slot = (rank + 1) % n
                x = out[slot * count : (slot + 1) * count]
                x[:] = parts[rank]
                if asynchronous:
                    world.all_gather(x, out, async_op=True).wait()
                else:
                    world.all_gather(x, out)
                assert numpy.array_equal(out, numpy.concatenate(parts)), (count, dtype, asynchronous)


@pytest.mark.parametrize("function", [moves, complex_numbers, in_another_slot], ids=lambda f: f.__name__)
@pytest.mark.parametrize(("ranks", "transport"), [(1, ""), (2, ""), (3, ""), (3, "tcp")])
def test_elements(pools: Pools, ranks: int, transport: str, function: Any) -> None:
    pools(ranks, transport).run(function)


@pytest.fixture
def alone() -> Any:
    world = unisono.Context(unisono.Config()).create_group(unisono.make_memory_store(), 0, 1)
    yield world
    world.destroy()


RECORDS_WITH_OBJECTS: Any = numpy.zeros(2, [("a", "i4"), ("b", "O")])


@pytest.mark.parametrize(
    "x",
    [
        numpy.array([1, "a"], object),
        numpy.zeros(2, [("a", "i4"), ("deep", [("b", "O")])]),
        memoryview(RECORDS_WITH_OBJECTS),
        (ctypes.POINTER(ctypes.c_int) * 2)(),
    ],
    ids=["objects", "nested", "memoryview", "pointers"],
)
def test_objects_are_refused(alone: Group, x: Any) -> None:
    for call in (alone.broadcast, alone.all_gather, alone.all_to_all):
        with pytest.raises(unisono.InvalidArgument, match="Python objects or pointers"):
            call(x)


@pytest.mark.parametrize("dtype", ["M8[s]", "S4", elements.RECORD, ">f4", "g"])
def test_what_only_moves_is_not_reduced(alone: Group, dtype: Any) -> None:
    with pytest.raises(unisono.InvalidArgument, match=r"can be moved .* but not reduced"):
        alone.all_reduce(numpy.zeros(3, dtype))


@pytest.mark.parametrize("op", ["min", "max", "band"])
def test_complex_numbers_have_no_order(alone: Group, op: str) -> None:
    why = "it is for integers and bool" if op == "band" else "complex numbers have no order"
    for dtype, name in (("c8", "c64"), ("c16", "c128")):
        with pytest.raises(unisono.InvalidArgument, match=f"{op} is not defined for {name}; {why}"):
            alone.all_reduce(numpy.zeros(3, dtype), op)


def test_complex_products_of_other_libraries_arrays(alone: Group) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (tools/requirements-torch.txt)")

    def call(world: Group) -> bool:
        x = torch.full((3,), 1 + 1j)
        world.all_reduce(x, "product")
        values: Any = numpy.full(3, 1 + 1j)
        y = memoryview(values)
        world.all_reduce(y, "product")
        return bool((x == 2j).all()) and bool((numpy.asarray(y) == 2j).all())

    assert unisono.spawn_threads(2, call) == [True, True]


def test_colours_of_64_bits(alone: Group) -> None:
    part = alone.split(2**63 - 1, -(2**63))
    assert part is not None and part.size == 1
    assert alone.split(numpy.int64(2**62)) is not None
    assert alone.split(-(2**63)) is None
    for colour, message in {2**63: "colour is 9223372036854775808; it must be from -2", "a": "colour is a str"}.items():
        with pytest.raises(unisono.InvalidArgument, match=message):
            alone.split(colour)
    with pytest.raises(unisono.InvalidArgument, match="key is a float"):
        alone.split(0, 0.5)


@pytest.mark.parametrize("pair", [("c8", "f8"), ("M8[s]", "f8"), ("S8", "i8")], ids=str)
def test_different_types_are_a_mismatch(pair: Any) -> None:
    def call(world: Group) -> str:
        with pytest.raises(unisono.Mismatch) as caught:
            world.broadcast(numpy.zeros(4, pair[world.rank]))
        return str(caught.value)

    for message in unisono.spawn_threads(2, call):
        assert message.count("broadcast") >= 2, message


class WithoutFlags:
    """An exporter of DLPack from before version 1.0 (pyarrow 17), over memory of NumPy's."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, stream: None = None) -> Any:
        return self.array.__dlpack__(max_version=None)


def test_capsules_without_flags_are_read_only(alone: Group) -> None:
    x = numpy.arange(3.0)
    with pytest.raises(unisono.InvalidArgument, match=r"DLPack from before version 1\.0"):
        alone.all_reduce(WithoutFlags(x))
    out = numpy.zeros(3)
    alone.all_reduce(WithoutFlags(x), out=out)
    assert out.tolist() == [0, 1, 2]


def test_lazy_views_of_torch(alone: Group) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (tools/requirements-torch.txt)")
    z = torch.tensor([1 + 2j, 3 + 4j])
    out = torch.zeros(2)
    alone.all_reduce(z.conj().imag, out=out)
    assert out.tolist() == [-2, -4]
    assert alone.all_gather(z.conj())[0].tolist() == z.conj().tolist()
    for view in (z.conj().imag, z.conj()):
        with pytest.raises(unisono.InvalidArgument, match="lazily conjugated or negated"):
            alone.all_reduce(view)

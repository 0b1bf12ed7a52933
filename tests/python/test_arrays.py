"""What may be given as an array: kinds of memory, layouts, and what is refused. A world of one, in this process."""

from __future__ import annotations

import array
import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import unisono
from harness import reference

Group = Any


@pytest.fixture(scope="module")
def world() -> Iterator[unisono.Group]:
    group = unisono.Context(unisono.Config()).create_group(unisono.make_memory_store(), 0, 1)
    yield group
    group.destroy()


def sources() -> list[Any]:
    data = bytes(range(1, 17))
    return [
        np.frombuffer(data, "u1").copy(),
        bytearray(data),
        memoryview(bytearray(data)),
        array.array("d", [1.0, 2.0]),
        np.arange(4.0).data,
        np.frombuffer(bytearray(data), ">u1"),
        (ctypes.c_float * 4)(1, 2, 3, 4),
    ]


@pytest.mark.parametrize("index", range(len(sources())))
def test_kinds_of_memory(world: Group, index: int) -> None:
    x = sources()[index]
    before = bytes(memoryview(x).cast("B"))
    world.all_reduce(x)
    world.broadcast(x)
    assert bytes(memoryview(x).cast("B")) == before
    out = bytearray(len(before))
    world.all_gather(memoryview(x).cast("B"), out)
    assert bytes(out) == before


@pytest.mark.parametrize("code", "bBhHiIlLqQfd")
def test_array_module(world: Group, code: str) -> None:
    x = array.array(code, [1, 2, 3])
    (copy,) = world.all_gather(x)
    assert copy.dtype == np.dtype(code) and copy.tolist() == x.tolist()


LAYOUTS: dict[str, Callable[[], np.ndarray]] = {
    "transposed": lambda: np.zeros((3, 4)).T,
    "every other": lambda: np.zeros((4, 6))[:, ::2],
    "reversed": lambda: np.zeros(12)[::-1],
    "a plane": lambda: np.zeros((3, 4, 5))[:, 2, :],
    "fortran": lambda: np.zeros((3, 4), order="F"),
    "unaligned": lambda: np.frombuffer(bytearray(97), np.uint8)[1:].view(np.float64),
    "a field": lambda: np.zeros(12, [("a", "i1"), ("b", "f8")])["b"],
    "no dimension": lambda: np.zeros(()),
    "empty": lambda: np.zeros((0, 3))[:, ::2],
    "one of many": lambda: np.zeros((4, 4))[1:2, ::3],
    "bytes": lambda: np.zeros((6, 4), "u1")[::2, 1:3],
    "halves": lambda: np.zeros((6, 4), "f2")[::2, ::-1],
    "floats": lambda: np.zeros((6, 4), "f4")[::-2, 1:3],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(world: Group, name: str) -> None:
    x = LAYOUTS[name]()
    memory = x
    while isinstance(memory.base, np.ndarray):
        memory = memory.base
    if memory.dtype.names is None:
        memory.fill(77)
    x[...] = np.arange(x.size).reshape(x.shape)
    expected, everything = np.array(x), memory.tobytes()

    out = LAYOUTS[name]()
    world.all_reduce(x, out=out)
    np.testing.assert_array_equal(out, expected)
    world.all_reduce(x)
    np.testing.assert_array_equal(x, expected)
    (copy,) = world.all_gather(x)
    np.testing.assert_array_equal(copy, expected)
    assert memory.tobytes() == everything, "what lies between the elements was changed"


def test_asynchronous_from_a_layout(world: Group) -> None:
    x, out = np.arange(12.0).reshape(3, 4), np.zeros((4, 3))
    world.all_reduce(x.T, out=out, async_op=True).wait()
    np.testing.assert_array_equal(out, x.T)
    with pytest.raises(unisono.InvalidArgument, match=r"all_reduce: x is not contiguous.*async_op=True"):
        world.all_reduce(x.T, async_op=True)
    with pytest.raises(unisono.InvalidArgument, match="all_reduce: out is not contiguous"):
        world.all_reduce(np.zeros((4, 3)), out=x.T, async_op=True)


def locked(x: np.ndarray) -> np.ndarray:
    x.flags.writeable = False
    return x


REFUSED: dict[str, tuple[Callable[[Group], object], str]] = {
    "a list": (lambda w: w.all_reduce([1.0, 2.0]), "all_reduce: x is a list; give an array"),
    "a number": (lambda w: w.all_reduce(1.0, async_op=True), "x is a number .a float.*need an array"),
    "a number and out": (lambda w: w.reduce(1, out=np.zeros(1)), "x is a number .a int.*need an array"),
    "a number elsewhere": (lambda w: w.broadcast(1.0), "broadcast: x is a float"),
    "a huge number": (lambda w: w.all_reduce(2**63), "beyond 64 bits"),
    "None": (lambda w: w.broadcast(None), "broadcast: x is None"),
    "read-only": (lambda w: w.all_reduce(locked(np.zeros(3))), "all_reduce: x is read-only"),
    "bytes": (lambda w: w.all_reduce(b"abc"), "all_reduce: x is read-only"),
    "read-only out": (lambda w: w.all_gather(np.zeros(3), locked(np.zeros(3))), "all_gather: out is read-only"),
    "a broadcast view": (
        lambda w: w.all_reduce(np.lib.stride_tricks.as_strided(np.zeros(2), (3, 2), (0, 8))),
        "x has several indices for one element",
    ),
    "complex": (
        lambda w: w.all_reduce(np.zeros(3, complex), "min"),
        "min is not defined for c128; complex numbers have no order",
    ),
    "objects": (lambda w: w.all_reduce(np.zeros(3, object)), "x holds Python objects"),
    "dates": (lambda w: w.all_reduce(np.zeros(3, "M8[s]")), r"x has elements of datetime64\[s\], which can be moved"),
    "other byte order": (lambda w: w.all_reduce(np.zeros(3, ">f4")), "x has elements of >f4.*byte order"),
    "objects in a message": (lambda w: w.isend(np.zeros(3, object), 0), "isend: x holds Python objects"),
    "two dtypes": (
        lambda w: w.all_reduce(np.zeros(3), out=np.zeros(3, "f4")),
        "x has elements of type f64 and out of type f32",
    ),
    "a small out": (
        lambda w: w.all_reduce(np.zeros(3), out=np.zeros(2)),
        r"out has 2 elements; it needs 3 \(as many as x\)",
    ),
    "no such op": (lambda w: w.all_reduce(np.zeros(3), "mean"), "op 'mean' is not one of sum, avg, product"),
    "op is a number": (lambda w: w.all_reduce(np.zeros(3), 3), "all_reduce: op is a int"),
    "avg of bool": (lambda w: w.all_reduce(np.zeros(3, bool), "avg"), "avg.*bool"),
    "band of floats": (lambda w: w.reduce(np.zeros(3), op="band"), "band.*f64"),
    "no such algorithm": (lambda w: w.all_reduce(np.zeros(3), algorithm="magic"), "magic"),
    "algorithm is a number": (lambda w: w.all_reduce(np.zeros(3), algorithm=3), "algorithm is a int"),
    "a negative timeout": (lambda w: w.all_reduce(np.zeros(3), timeout=-1), "timeout is -1.*negative"),
    "a timeout that is none": (lambda w: w.all_reduce(np.zeros(3), timeout="soon"), "timeout is a str"),
    "a root out of range": (lambda w: w.broadcast(np.zeros(3), root=1), "root 1.*range"),
    "a negative root": (lambda w: w.reduce(np.zeros(3), root=-1), "root -1.*range"),
    "a negative count": (lambda w: w.all_gather(np.zeros(3), counts=[-3]), r"counts\[0\] is -3.*negative"),
    "too many counts": (lambda w: w.all_gather(np.zeros(3), counts=[3, 3]), "counts has 2 entries; the group has 1"),
    "an overflowing count": (lambda w: w.all_gather(np.zeros(3), counts=[2**63]), "counts is .*below 2.63"),
    "a wrong count": (lambda w: w.all_gather(np.zeros(3), counts=[2]), r"x has 3 elements; it needs 2 \(counts\[0\]"),
    "counts of one side": (lambda w: w.all_to_all(np.zeros(3), counts=[3]), "give both counts and output_counts"),
    "no out for later": (lambda w: w.all_gather(np.zeros(3), async_op=True), "async_op=True needs out"),
    "overlapping": (lambda w: (lambda x: w.all_reduce(x[:-1], out=x[1:]))(np.zeros(9)), "overlap"),
    "overlapping through a stage": (
        lambda w: (lambda x: w.all_reduce(x[::2], out=x[:5]))(np.zeros(9)),
        "x and out overlap",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(world: Group, name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(unisono.InvalidArgument, match=message) as caught:
        call(world)
    assert isinstance(caught.value, ValueError)
    # Nothing was started, and the group goes on.
    world.barrier()


def test_overlap_is_fine_where_nothing_is_written(world: Group) -> None:
    x = np.arange(8.0)
    world.broadcast(locked(x.copy()))
    world.all_to_all(x, np.zeros(8))


def test_dtypes_keep_their_kind(world: Group) -> None:
    for dtype in reference.DTYPES:
        x = reference.make(dtype, 5, 0)
        (copy,) = world.all_gather(x)
        reference.check(copy, x)


def test_shapes_of_new_arrays(world: Group) -> None:
    x = np.zeros((4, 5), "i2")
    assert [part.shape for part in world.all_gather(x)] == [(4, 5)]
    assert world.reduce_scatter(x).shape == (4, 5)
    assert world.all_to_all(x).shape == (4, 5)
    with pytest.raises(unisono.InvalidArgument, match="first dimension"):
        world.reduce_scatter(np.zeros(()))


def test_bfloat16_of_ml_dtypes(world: Group) -> None:
    ml_dtypes = pytest.importorskip(
        "ml_dtypes", reason="NumPy's own bfloat16 comes with ml_dtypes, which is not installed"
    )
    x = np.arange(4).astype(ml_dtypes.bfloat16)
    world.all_reduce(x, "avg")
    assert x.tolist() == [0, 1, 2, 3]

"""Python objects as bytes, and Group's operations on them."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import pickle
import random
import struct
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unisono
from harness import Pools
from harness.launch import environment
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from unisono import _core

Group = Any
EXAMPLES = 2000 if os.environ.get("UNISONO_TEST_LONG") else 100

numbers = st.none() | st.booleans() | st.integers() | st.integers(-(2**70), 2**70) | st.floats() | st.complex_numbers()
plain_dtypes = (
    hnp.boolean_dtypes()
    | hnp.integer_dtypes(endianness="?")
    | hnp.floating_dtypes(sizes=(16, 32, 64), endianness="?")
    | hnp.complex_number_dtypes(sizes=(64, 128))
    | hnp.unicode_string_dtypes()
    | hnp.byte_string_dtypes()
    | hnp.datetime64_dtypes()
)
arrays = hnp.arrays(plain_dtypes, hnp.array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=4))
scalars = hnp.arrays(plain_dtypes, ()).map(lambda x: x[()])
leaves = numbers | st.text() | st.binary() | arrays | scalars
keys = st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.tuples(st.integers(), st.text())
objects = st.recursive(
    leaves,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(keys, inner),
    max_leaves=12,
)


def same(a: Any, b: Any) -> bool:
    """Equal, of one type, NaN being equal to itself, dictionaries in one order."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, np.ndarray):
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    if isinstance(a, np.generic):
        return bool(a.dtype == b.dtype and a.tobytes() == b.tobytes())
    if isinstance(a, float | complex):
        return repr(a) == repr(b)
    return bool(a == b)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(objects)
def test_what_goes_in_comes_out(thing: Any) -> None:
    again = _core.decode_object(_core.encode_object(thing))
    assert same(thing, again), (thing, again)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(objects, st.integers(0, 2**32))
def test_damaged_bytes_are_an_error_and_nothing_worse(thing: Any, seed: int) -> None:
    dice = random.Random(seed)
    good = _core.encode_object(thing)
    for _ in range(20):
        bad = bytearray(good)
        for _ in range(dice.randrange(4)):
            bad[dice.randrange(3, len(bad))] = dice.choice([0, 1, 127, 128, 255, dice.randrange(256), *b"aldsuEPS"])
        if dice.random() < 0.2:
            del bad[dice.randrange(len(bad)) :]
        if dice.random() < 0.1:
            bad += b"N"
        with contextlib.suppress(unisono.InvalidArgument):
            _core.decode_object(bytes(bad))


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes(body: bytes) -> None:
    for head in (b"", b"UO\1S"):
        try:
            _core.decode_object(head + body)
        except unisono.InvalidArgument as error:
            assert "decode_object: " in str(error)


def number(n: int) -> bytes:
    out = b""
    while n >= 0x80:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


HOSTILE = {
    "a long list": (b"l" + number(2**62), "items, for which there is no room"),
    "a long dict": (b"d" + number(2**63 + 5), "items, for which there is no room"),
    "a long text": (b"s" + number(2**64 - 1), "should follow"),
    "a long number": (b"s" + b"\xff" * 11, "more than 64 bits"),
    "deep": (b"l\1" * 100_000 + b"N", "nesting deeper than 100"),
    "a huge array": (b"a\3<f8\2" + number(2**40) + number(2**40) + b"\0", "an array whose shape needs"),
    "an empty huge array": (b"a\3<f8\3" + number(2**62) + number(2**62) + b"\0\0", "cannot be read"),
    "dimensions": (b"a\3<f8" + number(1000), "1000 dimensions"),
    "Python objects": (b"a\2|O\0\0", "element type"),
    "many types": (b"a\5i4,O8\0\0", "element type"),
    "a record": (b"a\4|V0x\0\0", "not understood"),
    "an unhashable key": (b"d\1l\0N", "unhashable"),
    "text that is none": (b"s\1\xff", "decode"),
    "nothing": (b"", "should follow"),
    "two": (b"NN", "more bytes follow"),
    "unknown": (b"Z", "unknown kind 90"),
    "a type's name that is no text": (b"a\4<\xff\xfe8\0\0", "element type"),
    "a tensor's type that is no text": (b"u\5int\xff8\0\0", "no element type"),
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_bytes(name: str) -> None:
    body, words = HOSTILE[name]
    with pytest.raises(unisono.InvalidArgument, match=words):
        _core.decode_object(b"UO\1S" + body)


def test_a_senders_reason_that_is_no_text() -> None:
    with pytest.raises(unisono.InvalidArgument, match=r"no object to send: a\?b"):
        _core.decode_object(b"UO\1Ea\xffb")


class Thing:
    """Not plain."""

    def __eq__(self, other: object) -> bool:
        return type(other) is Thing


class Named(OrderedDict[str, int]):
    """Not plain either: what it adds would be lost."""


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
NOT_PLAIN = [
    (Thing(), "Thing"),
    ({"a": [1, {2, 3}]}, "a set"),
    (Named(a=1), "Named"),
    (np.array([1, "x"], object), "numpy.ndarray of object"),
    (np.zeros(2, [("a", "i4")]), "numpy.ndarray of"),
    (np.ma.masked_array([1, 2]), "MaskedArray"),
    (np.longdouble(1), "numpy.longdouble"),
    (range(3), "range"),
    (CYCLE, "contains itself"),
    (int, "type"),
    (np.float32, "type"),
]


@pytest.mark.parametrize("thing", [thing for thing, _ in NOT_PLAIN], ids=[words for _, words in NOT_PLAIN])
def test_what_needs_pickle(thing: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    words = next(words for other, words in NOT_PLAIN if other is thing)
    with pytest.raises(unisono.InvalidArgument, match="only pickle can send") as refused:
        _core.encode_object(thing)
    assert words in str(refused.value)
    data = _core.encode_object(thing, pickle=True)
    with pytest.raises(unisono.InvalidArgument, match="pickle=True here, too"):
        _core.decode_object(data)
    again = _core.decode_object(data, pickle=True)
    assert type(again) is type(thing)
    for name, value in (("UNISONO_PICKLE", "0"), ("UNISONO_STRICT", "1"), ("UNISONO_PICKLE", "maybe")):
        monkeypatch.setenv(name, value)
        for call in (lambda: _core.encode_object(thing, pickle=True), lambda: _core.decode_object(data, pickle=True)):
            with pytest.raises(unisono.InvalidArgument, match=name):
                call()
        monkeypatch.delenv(name)
    # Plain all the same.
    assert pickle.dumps([1, "x"]) not in _core.encode_object([1, "x"], pickle=True)


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.int8, torch.float8_e4m3fn):
        for shape in ((), (0,), (2, 3), (0, 4)):
            x = torch.arange(math.prod(shape)).reshape(shape).to(dtype)
            again = _core.decode_object(_core.encode_object({"x": x}))["x"]
            assert again.dtype == dtype and again.shape == x.shape
            assert again.to(torch.complex64).tolist() == x.to(torch.complex64).tolist()
            again.flatten()[:1] = 1  # it can be written
    turned = torch.arange(6.0).reshape(2, 3).T
    assert torch.equal(_core.decode_object(_core.encode_object(turned)), turned)
    assert torch.equal(_core.decode_object(_core.encode_object(torch.tensor([1 + 2j]).conj())), torch.tensor([1 - 2j]))
    for wrong in (torch.zeros(2, requires_grad=True), torch.zeros(2).to_sparse(), torch.nn.Parameter(torch.zeros(1))):
        with pytest.raises(unisono.InvalidArgument, match="only pickle can send"):
            _core.encode_object(wrong)
    for name in (b"Tensor", b"compile", b"float33", b"load"):
        with pytest.raises(unisono.InvalidArgument, match="no element type"):
            _core.decode_object(b"UO\1Su" + bytes([len(name)]) + name + b"\0\0")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="a tensor to send is needed")
def test_a_tensor_where_there_is_no_torch() -> None:
    data = b"UO\1Su\7float32\1\1\4" + struct.pack("<f", 1)
    program = f"import sys; sys.modules['torch'] = None\nfrom unisono import _core\n_core.decode_object({data!r})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment({}), check=False
    )
    assert "InvalidArgument" in done.stderr and "torch cannot be imported here" in done.stderr, done.stderr


def between_ranks(world: Group) -> None:
    n, rank = world.size, world.rank
    mine = {"rank": rank, "text": "é" * rank, "data": np.arange(rank * 1000), "deep": [(None, True, 2**100)]}
    for root in {0, n - 1}:
        got = world.broadcast_object(mine if rank == root else None, root)
        assert got["rank"] == root and got["data"].tolist() == list(range(root * 1000)) and got["deep"][0][2] == 2**100
        got["data"][:1] = 7  # it is this rank's own
        found = world.gather_object(mine, root)
        assert (found is None) == (rank != root)
        if found is not None:
            assert [each["rank"] for each in found] == list(range(n))
        assert world.scatter_object([f"for {i}" for i in range(n)] if rank == root else None, root) == f"for {rank}"
    assert [each["text"] for each in world.all_gather_object(mine)] == ["é" * i for i in range(n)]
    assert world.all_gather_object(None) == [None] * n
    world.send_object(mine, (rank + 1) % n)
    got, source = world.recv_object((rank - 1) % n)
    assert source == got["rank"] == (rank - 1) % n
    if rank == 0:
        assert sorted(world.recv_object(tag=5) for _ in range(n - 1)) == [(i, i) for i in range(1, n)]
    else:
        world.send_object(rank, 0, tag=5)
    # What one rank cannot send is everybody's error, at once; and the group goes on.
    wrong = {1, 2} if rank == n - 1 else 0
    call: Any
    for call in (
        lambda: world.all_gather_object(wrong),
        lambda: world.broadcast_object(wrong, n - 1),
        lambda: world.scatter_object([wrong] * n if rank == n - 1 else None, n - 1),
    ):
        try:
            call()
        except unisono.InvalidArgument as error:
            assert "a set" in str(error) and (rank == n - 1 or f"rank {n - 1} has no object to send" in str(error))
        else:
            raise AssertionError("no error")
    assert world.all_gather_object({rank}, pickle=True) == [{i} for i in range(n)]
    # Only the sender asked for pickle: the receivers refuse.
    try:
        got = world.broadcast_object({1}, pickle=rank == 0)
        assert rank == 0 and got == {1}
    except unisono.InvalidArgument as error:
        assert rank > 0 and "rank 0 sent a pickled object" in str(error), error
    # An array where an object is expected.
    if rank == 0:
        world.send(np.zeros(3), 1, tag=6)
    elif rank == 1:
        try:
            world.recv_object(0, tag=6)
        except unisono.InvalidArgument as error:
            assert "24 bytes" in str(error) or "longer" in str(error), error
        else:
            raise AssertionError("no error")
    world.barrier()


@pytest.mark.parametrize(("ranks", "transport"), [(2, ""), (3, "tcp")])
def test_between_ranks(pools: Pools, ranks: int, transport: str) -> None:
    pools(ranks, transport).run(between_ranks)


def in_torchs_words(world: Group, place: str) -> None:
    from harness.joined import joined

    n, rank = world.size, world.rank
    with joined(world, place) as dist:
        objects: list[Any] = [None] * n
        assert dist.all_gather_object(objects, {"rank": rank}) is None
        assert objects == [{"rank": i} for i in range(n)]
        objects = ["foo", 12, {1: 2}] if rank == n - 1 else [None] * 3
        dist.broadcast_object_list(objects, src=n - 1, device="cpu")
        assert objects == ["foo", 12, {1: 2}]
        objects = [None] * n
        # A set: pickle, as torch does.
        dist.gather_object({rank}, objects if rank == 0 else None, dst=0)
        assert objects == ([{i} for i in range(n)] if rank == 0 else [None] * n)
        output = [None]
        dist.scatter_object_list(output, [(i, 2.5) for i in range(n)] if rank == 0 else None, src=0)
        assert output == [(rank, 2.5)]
        if rank == 0:
            dist.send_object_list(["a", b"b", 3], dst=1)
            dist.send_object_list([1], group_dst=1, use_batch=True)
        elif rank == 1:
            objects = [None] * 3
            assert dist.recv_object_list(objects, src=0) == 0 and objects == ["a", b"b", 3]
            try:
                dist.recv_object_list(objects)
            except ValueError as error:
                assert "is a list of 3, and rank 0 sent a list of 1" in str(error)
            else:
                raise AssertionError("no error")
        call: Any
        for call, words in (
            (lambda: dist.all_gather_object([None], 1), "a list of at least"),
            (lambda: dist.gather_object(1, None, rank), "must be specified on destination"),
            (lambda: dist.gather_object(1, [None], 1 - rank), "must NOT be specified"),
            (lambda: dist.scatter_object_list([], None), "a list of at least 1"),
            (lambda: dist.send_object_list([1], rank), "should not be the same"),
        ):
            try:
                call()
            except ValueError as error:
                assert words in str(error), error
            else:
                raise AssertionError(words)
        os.environ["UNISONO_PICKLE"] = "0"
        try:
            dist.all_gather_object([None] * n, {1})
        except ValueError as error:
            assert "UNISONO_PICKLE=0" in str(error)
        else:
            raise AssertionError("no error")
        finally:
            del os.environ["UNISONO_PICKLE"]


def test_in_torchs_words(pools: Pools, tmp_path: Path) -> None:
    pools(2).run(in_torchs_words, place=str(tmp_path / "store"))
    assert "travels by pickle" in pools(2).output()

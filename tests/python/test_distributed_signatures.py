"""unisono.distributed beside torch.distributed: names, arguments, defaults. What differs stands here, with a reason."""

from __future__ import annotations

import datetime
import inspect
import re
from typing import Any

import pytest
import unisono
import unisono.distributed as dist

torch = pytest.importorskip("torch", reason="this compares with torch's own signatures: pip install torch==2.13.0")
theirs: Any = pytest.importorskip("torch.distributed")

NOT_HERE = "not needed to move arrays in main memory; the back end for torch has it"
# Names of torch.distributed.__all__ and the like that this module does not have.
ABSENT = {
    "AllToAllOptions": NOT_HERE,
    "AllreduceCoalescedOptions": NOT_HERE,
    "AllreduceOptions": NOT_HERE,
    "BackendConfig": NOT_HERE,
    "BarrierOptions": NOT_HERE,
    "BroadcastOptions": NOT_HERE,
    "DebugLevel": "torch's own diagnosis; unisono's is UNISONO_LOG",
    "GatherOptions": NOT_HERE,
    "GroupName": NOT_HERE,
    "ProcessGroupGloo": "Gloo",
    "ReduceOptions": NOT_HERE,
    "ReduceScatterOptions": NOT_HERE,
    "ScatterOptions": NOT_HERE,
    "get_debug_level": "torch's own diagnosis; unisono's is UNISONO_LOG",
    "record_comm": "torch's own profiler",
    "shrink_group": "of NCCL alone; make a new group of the ranks that are left",
}
# Arguments that only torch has.
ARGUMENTS = {("init_process_group", "_ranks"): "private"}


def default(parameter: inspect.Parameter) -> Any:
    """ReduceOp.SUM is another object here: its name counts."""
    return getattr(parameter.default, "name", parameter.default)


def functions() -> list[str]:
    return sorted(name for name in dist.__all__ if inspect.isfunction(getattr(dist, name)))


@pytest.mark.parametrize("name", [*functions(), "P2POp"])
def test_signature(name: str) -> None:
    ours = inspect.signature(getattr(dist, name)).parameters
    reference = {
        key: value
        for key, value in inspect.signature(getattr(theirs, name)).parameters.items()
        if (name, key) not in ARGUMENTS
    }
    assert list(ours) == list(reference)
    for key, value in reference.items():
        assert default(ours[key]) == default(value), key
        assert ours[key].kind == value.kind, key


def test_names() -> None:
    public = set(theirs.distributed_c10d.__all__)
    assert public - set(dist.__all__) - set(ABSENT) == set()
    assert set(ABSENT) & set(dist.__all__) == set()
    beyond = {name for name in dist.__all__ if not hasattr(theirs, name)}
    assert beyond == {"Future"}, "torch has that as torch.futures.Future"
    assert dist.default_pg_timeout == theirs.default_pg_timeout
    assert [op.name for op in dist.ReduceOp] == [
        name for name in theirs.ReduceOp.RedOpType.__members__ if name not in ("UNUSED", "PREMUL_SUM")
    ]
    assert dist.GroupMember.NON_GROUP_MEMBER == theirs.GroupMember.NON_GROUP_MEMBER
    assert dist.group.WORLD is None and dist.reduce_op is dist.ReduceOp


METHODS = {
    "Work": ["exception", "get_future", "is_completed", "is_success", "result", "source_rank", "synchronize", "wait"],
    "Store": [
        name
        for name in dir(theirs.Store)
        if not name.startswith("_") and name not in ("clone", "register_key_range", "barrier")
    ],
}


@pytest.mark.parametrize("kind", sorted(METHODS))
def test_methods(kind: str) -> None:
    missing = [name for name in METHODS[kind] if not hasattr(getattr(dist, kind), name)]
    assert missing == []


CONSTRUCTORS = ["TCPStore", "FileStore", "HashStore", "PrefixStore"]


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_constructors_of_stores(name: str) -> None:
    # torch has these from C++: their signatures stand in the first line of the docstring.
    line = str(getattr(theirs, name).__init__.__doc__).splitlines()[0]
    ours = inspect.signature(getattr(dist, name)).parameters
    assert re.findall(r"(\w+): ", line)[1:] == list(ours)
    for key, value in re.findall(r"(\w+): [^=,]* = (datetime\.timedelta\(seconds=\d+\)|[\w-]+)", line):
        assert ours[key].default == eval(value, {"datetime": datetime}), key


def test_errors() -> None:
    for name in ("DistError", "DistBackendError", "DistStoreError"):
        assert getattr(dist, name) is unisono.Error
    assert issubclass(unisono.Error, RuntimeError) and issubclass(theirs.DistError, RuntimeError)
    assert dist.DistNetworkError is unisono.SystemError


def test_everything_is_documented() -> None:
    for name in dist.__all__:
        thing = getattr(dist, name)
        if inspect.isfunction(thing) or inspect.isclass(thing):
            assert inspect.getdoc(thing), name

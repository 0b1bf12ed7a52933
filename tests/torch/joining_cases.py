"""What ranks do in test_joining.py. Each function is a whole program."""

# torch.distributed exports less to mypy than to its users.
# mypy: disable-error-code="attr-defined,no-untyped-call,union-attr,arg-type,name-defined"

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from life_cases import _join, _sum


def some_do_not_come(rank: int, size: int, folder: str, missing: list[int]) -> float:
    if rank in missing:
        return 0.0
    _join(rank, size, folder, timeout=2)
    raise AssertionError("it joined")


def out_of_range(rank: int, size: int, folder: str) -> None:
    dist.init_process_group("unisono", store=dist.FileStore(f"{folder}/meet"), rank=rank + size, world_size=size)


def one_has_wrong_settings(rank: int, size: int, folder: str, wrong: int) -> None:
    if rank == wrong:
        os.environ["UNISONO_TRANSPORT"] = "pigeons"
    _join(rank, size, folder, timeout=50)


class Spy(dist.Store):  # type: ignore[misc, unused-ignore]
    """A store that notes what is set."""

    def __init__(self, store: dist.Store) -> None:
        super().__init__()
        self.store = store
        self.noted: list[bytes] = []

    def set(self, key: str, value: bytes) -> None:
        self.noted.append(value if isinstance(value, bytes) else value.encode())
        self.store.set(key, value)

    def get(self, key: str) -> bytes:
        return bytes(self.store.get(key))

    def add(self, key: str, amount: int) -> int:
        return int(self.store.add(key, amount))

    def check(self, keys: list[str]) -> bool:
        return bool(self.store.check(keys))

    def wait(self, keys: list[str], timeout: timedelta = timedelta(seconds=30)) -> None:
        self.store.wait(keys, timeout)

    def delete_key(self, key: str) -> bool:
        return bool(self.store.delete_key(key))


def spied(rank: int, size: int, folder: str) -> list[str]:
    """The first words of what rank 0 says of the secret in the store."""
    store = Spy(dist.FileStore(f"{folder}/meet", size))
    dist.init_process_group("unisono", store=store, rank=rank, world_size=size)
    _sum(size)
    dist.barrier()
    dist.destroy_process_group()
    words = [note.split()[0].decode() for note in store.noted if note.split() and note[:1].isalpha()]
    return [word for word in words if word in ("door", "store", "joins")]


def groups_in_another_back_ends_world(rank: int, size: int, folder: str) -> None:
    """Of back end unisono, without global rank 0, and beside each other."""
    _join(rank, size, folder, timeout=20, backend="gloo")
    last_two = dist.new_group([size - 2, size - 1], backend="unisono")
    all_but_0 = dist.new_group(list(range(1, size)), backend="unisono")
    everybody = dist.new_group(backend="unisono")
    if rank >= size - 2:
        _sum(2, group=last_two)
    if rank > 0:
        _sum(size - 1, group=all_but_0)
    _sum(size, group=everybody)
    mesh = dist.init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("a", "b"), backend_override={"b": "unisono"})
    assert dist.get_backend(mesh.get_group("b")) == "unisono"
    _sum(2, group=mesh.get_group("b"))
    dist.barrier()
    dist.destroy_process_group()


LONG = {
    "millennium": timedelta(days=365_000),
    "2^40 s": timedelta(seconds=2**40),
    "10^8 days": timedelta(days=10**8),
    "max": timedelta.max,
}


def long_timeouts(rank: int, size: int, folder: str) -> None:
    """They never pass: rank 1 is late everywhere."""
    import unisono.torch

    _join(rank, size, folder)

    def late() -> None:
        dist.barrier()
        if rank == 1:
            time.sleep(0.3)  # not for order: it is how late this rank is

    for name, timeout in LONG.items():
        work = None
        if rank == 1:
            late()
            work = dist.all_reduce(torch.ones(4), async_op=True)
        else:
            late()
            work = dist.all_reduce(torch.ones(4), async_op=True)
        assert work is not None and work.wait(timeout), name
        group = dist.new_group(timeout=timeout)
        late()
        _sum(size, group=group)
        late()
        unisono.torch.monitored_barrier(timeout=timeout)
        options = dist.BarrierOptions()
        options.timeout, options.asyncOp = timeout, False
        late()
        backend: Any = group._get_backend(torch.device("cpu"))
        backend.barrier(options)
        dist.group.WORLD.set_timeout(timeout)
        late()
        _sum(size)
    dist.destroy_process_group()


def beside_unisono(rank: int, size: int, folder: str, port: int, first: str, local: bool) -> None:
    """torch.distributed and unisono.init() in one program, with one MASTER_PORT for both."""
    import numpy as np
    import unisono

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size))
    if local:
        os.environ["LOCAL_WORLD_SIZE"] = str(size)
    else:  # then unisono's store is behind a port
        os.environ["UNISONO_SECRET"] = "5" * 64
    if first == "torch":
        dist.init_process_group("unisono")
    world = unisono.init(init_timeout=30)
    if first == "unisono":
        dist.init_process_group("unisono")
    x = np.ones(5)
    world.all_reduce(x)
    assert x[0] == size
    _sum(size)
    dist.destroy_process_group()
    world.destroy()

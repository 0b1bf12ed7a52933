"""A process group of torch in Python over a unisono Group: how it is made and left, and its messages."""

# torch.distributed exports less to mypy than to its users.
# mypy: disable-error-code="attr-defined"

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from unisono import _core, _monitored, errors
from unisono.torch.pure._collectives import Collectives
from unisono.torch.pure._errors import translating
from unisono.torch.pure._store import RememberingStore
from unisono.torch.pure._tensors import flat
from unisono.torch.pure._work import Flights
from unisono.torch.pure._worlds import Worlds

CENTURY = 100 * 365 * 86400.0
"""Seconds: as good as no time-out."""
DEFAULT_TIMEOUT = timedelta(minutes=30)


class PythonOptions(dist.ProcessGroup.Options if hasattr(dist.ProcessGroup, "Options") else dist._Backend.Options):  # type: ignore[misc]
    """Options of a process group."""

    def __init__(self, timeout: timedelta = DEFAULT_TIMEOUT) -> None:
        super().__init__("unisono", timeout)

    def __deepcopy__(self, _: Any) -> PythonOptions:
        """As torch's C++ options are copied."""
        copy = PythonOptions(self._timeout)
        copy.global_ranks_in_group, copy.group_name = list(self.global_ranks_in_group), self.group_name
        return copy

    def __copy__(self) -> PythonOptions:
        return self.__deepcopy__({})


class PythonGroup(Collectives, dist.ProcessGroup):  # type: ignore[misc]  # torch calls arguments by other names
    """The group that torch gets of `create_backend`, and its own back end. Any thread."""

    supports_splitting = True
    supports_coalescing = False
    supports_time_estimate = False
    supports_shrinking = False
    supports_window = False
    supports_reconfigure = False

    def __init__(self, worlds: Worlds, store: Any, rank: int, size: int, options: Any) -> None:
        """Join: waits until all `size` ranks are there."""
        super().__init__(rank, size)  # type: ignore[call-arg]
        self._worlds, self._store, self._options = worlds, store, options
        self._rank, self._size = rank, size
        self._monitored = itertools.count(_monitored.FIRST_TAG)
        self._everybody = not options.global_ranks_in_group
        self._name, self._description = "", ""
        self._flights = Flights()
        self._where = f' on group "{options.group_name}"'
        if not self._everybody:
            self._where += f" (global ranks {', '.join(map(str, options.global_ranks_in_group))})"
        self._group = self._join(RememberingStore(store))
        worlds.enlist(self)

    def _join(self, store: RememberingStore) -> _core.Group:
        what, rank, size = self._title("unisono: joining"), self._rank, self._size
        try:
            with translating(what):
                if not 0 <= rank < size:
                    raise errors.InvalidArgument(f"rank {rank} of {size} ranks: ranks go from 0 to {size - 1}")
                seconds = self._limit()
                if self._everybody:
                    self._world = self._worlds.found(store, rank, size, seconds)
                else:
                    global_rank = self._options.global_ranks_in_group[rank]
                    self._world = self._worlds.share(store, rank, size, global_rank, seconds)
                group = self._world.context.create_group(store.ours, rank, size, self._options.group_name)
                group.barrier(timeout=seconds)  # when all are through, all have read
                store.forget()
                return group
        except dist.DistBackendError as error:
            if ": timeout : " in str(error):  # before the group exists, a rank that is missing is the store's news
                raise dist.DistStoreError(str(error)) from None
            raise

    # --- what torch asks of a group, and of its back end

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        """What torch calls a back end that it does not ship."""
        return "custom"

    def getGroupName(self) -> str:  # noqa: N802 - torch's C++ calls it so
        """Torch's name of the group."""
        return self._name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """Given by torch when the group is made."""
        self._name = name

    def getGroupDesc(self) -> str:  # noqa: N802
        """The user's description."""
        return self._description

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        """Given by torch when the group is made."""
        self._description = description

    group_name = property(getGroupName, setGroupName)
    group_desc = property(getGroupDesc, setGroupDesc)
    _set_group_name = setGroupName
    _set_group_desc = setGroupDesc  # type: ignore[assignment]

    def _get_backend(self, device: torch.device) -> Any:
        return self

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    @property
    def options(self) -> Any:
        """What it was made with."""
        return self._options

    @property
    def transport(self) -> str:
        """ "shm", "tcp", "mixed", "self"."""
        return self._group.transport

    def set_timeout(self, timeout: timedelta) -> None:
        """For what is called from now on."""
        self._options._timeout = timeout

    def _set_default_timeout(self, timeout: timedelta) -> None:
        self.set_timeout(timeout)

    def _get_sequence_number_for_group(self) -> int:
        return self._group.sequence_number

    def _set_sequence_number_for_group(self) -> None:
        """Numbers begin at 0 on all ranks: there is nothing to agree on."""

    def _start_coalescing(self, device: Any = None) -> None:
        raise RuntimeError("Backend unisono does not support startCoalescing: leave `device` away")

    def split_group(
        self,
        ranks: list[int],
        timeout: timedelta | None = None,
        opts: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        *_: Any,
        # Torch 2.15's: this group has the CPU alone.
        device_types: list[torch.device] | None = None,
    ) -> Any:
        """The members' new group; None for others."""
        if self._rank not in ranks:
            return None
        mine = self._options.global_ranks_in_group
        options = PythonOptions(timeout or (opts._timeout if opts is not None else self._options._timeout))
        options.global_ranks_in_group = [mine[r] for r in ranks] if mine else list(ranks)
        options.group_name = group_name or f"{self._options.group_name}:split:{','.join(map(str, ranks))}"
        store = dist.PrefixStore(f"{options.group_name}/", self._store)
        made = type(self)(self._worlds, store, ranks.index(self._rank), len(ranks), options)
        made.setGroupName(options.group_name)
        made.setGroupDesc(group_desc or "undefined")
        return made

    def merge_remote_group(self, *arguments: Any, **named: Any) -> Any:
        """Not without the compiled part."""
        raise RuntimeError("unisono: merge_remote_group needs the compiled back end: python -m unisono.torch._build")

    def get_error(self) -> int:
        """0: no operation has failed; 1: time-out, 2: communication, 3: a rank that died (c10d's ErrorType)."""
        return self._flights.health.failure

    def abort(self) -> None:
        """Every operation in flight ends with an error, here and on the other ranks; so does every later call."""
        self.abort_because("its process group was aborted")

    def abort_because(self, reason: str) -> None:
        """Abort with a reason that the other ranks read."""
        self._flights.kept.clear()
        with translating(self._title("unisono: abort")):
            self._group.abort(reason)

    def shutdown(self) -> None:
        """Finish what is in flight and leave the group."""
        if not self._group.made_here:  # a forked child: the parent's group goes on
            return
        with translating(self._title("unisono: shutdown")):
            if self._everybody:
                self._worlds.retire(self._world)
            self._group.destroy()
            self._flights.settle()
            self._flights.kept.clear()

    def leave(self, reason: str | None, patience: float) -> None:
        """At the end of the process. Waits so many seconds for what is in flight."""
        if not self._group.made_here or self._group.destroyed:
            return
        done = self._flights.finish(patience)
        if self._flights.callers:  # daemon threads, which must not lose the group under them
            if reason:
                self._group.abort(reason)
            return
        if reason or not done:
            self._group.abort(reason or "it left the group with operations in flight")
        self._group.destroy()

    def supports_tensor_alloc(self, device: torch.device) -> bool:
        """No: torch takes such memory of the compiled back end alone."""
        return False

    def shares(self, tensor: torch.Tensor) -> bool:
        """Whether other ranks on this host reach its memory."""
        return not self._group.destroyed and self._group.shares(flat(tensor))

    # --- for the collectives

    def _limit(self, timeout: timedelta | None = None) -> float:
        """Seconds; the group's where a call says nothing (torch's kUnsetTimeout is -1 ms)."""
        if timeout is None or timeout == timedelta(milliseconds=-1):
            timeout = self._options._timeout
        seconds: float = timeout.total_seconds()
        return CENTURY if seconds < -CENTURY else min(max(seconds, 0.0), CENTURY)

    def _title(self, title: str) -> str:
        return title + self._where

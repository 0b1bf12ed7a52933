"""send, recv, and monitored_barrier, which is made of them."""

# torch.distributed exports less to mypy than to its users.
# mypy: disable-error-code="attr-defined"

from __future__ import annotations

import itertools
from datetime import timedelta

import torch
import torch.distributed as dist

from unisono import _core, _monitored, errors
from unisono.torch.pure._calls import Calls, Tensors
from unisono.torch.pure._errors import translating
from unisono.torch.pure._tensors import check, check_dense, check_writable, flat, is_packed, packed, settle_into
from unisono.torch.pure._work import Plan, PythonWork, begun


class Messages(Calls):
    """Each checks its arguments before anything is sent."""

    _monitored: itertools.count[int]

    def send(self, tensors: Tensors, dst: int, tag: int) -> PythonWork:
        """Torch's."""
        title = "unisono:send"
        t = self._checked_message(tensors, dst, tag, title)
        source = flat(packed(t))
        return self._message(self._plan(title, lambda **o: self._group.isend(source, dst, tag, **o), [t], [t]))

    def recv(self, tensors: Tensors, src: int, tag: int) -> PythonWork:
        """Torch's."""
        return self._receive(tensors, src, tag, "unisono:recv")

    def recv_anysource(self, tensors: Tensors, tag: int) -> PythonWork:
        """Torch's."""
        return self._receive(tensors, _core.ANY_RANK, tag, "unisono:recvAnySource")

    recvAnysource = recv_anysource  # noqa: N815 - as torch's C++ calls it

    def _checked_message(self, tensors: Tensors, peer: int, tag: int, title: str) -> torch.Tensor:
        check(
            peer != self._rank, title, ": rank ", peer, " is to exchange a message with itself; copy the tensor instead"
        )
        check(len(tensors) == 1, title, ": ", len(tensors), " tensors were given, one is needed")
        check(tag >= 0, title, ": tag ", tag, " is negative")
        check_dense(tensors[0], title)
        return tensors[0]

    def _receive(self, tensors: Tensors, src: int, tag: int, title: str) -> PythonWork:
        t = self._checked_message(tensors, src, tag, title)
        check_writable(t, title)
        landing = t.detach() if is_packed(t) else torch.empty(t.shape, dtype=t.dtype)
        memory = flat(landing)
        plan = self._plan(title, lambda **o: self._group.irecv(memory, src, tag, **o), [t], [t])
        if not is_packed(t):
            plan.finish = lambda: settle_into([t], landing)
        return self._message(plan)

    def _message(self, plan: Plan) -> PythonWork:
        plan.is_message = True
        with translating(plan.what, self._flights.health):
            return begun(plan, timeout=self._limit())

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Names who is missing, in the words that users of Gloo look for."""
        what, tag = self._title("unisono: monitored_barrier"), next(self._monitored)
        seconds = self._limit(timeout)
        milliseconds = f"{seconds * 1000:.0f} ms"
        if seconds <= 0 and self._rank == 0 and self._size > 1:
            raise RuntimeError(f"Rank 0 timed out in monitoredBarrier after {milliseconds}. {what}")
        try:
            missing = _monitored.monitored_barrier(self._group, tag, seconds, wait_all_ranks)
        except errors.Error as error:
            if self._rank == 0:
                with translating(what):
                    raise
            raise dist.DistBackendError(
                f"Rank {self._rank} successfully reached monitoredBarrier, but received errors while waiting for "
                f"send/recv from rank 0. Please check rank 0 logs for faulty rank. {what}: {error}"
            ) from None
        if missing:
            reasons = "".join(f"\n  rank {rank}: {error}" for rank, error in missing.items())
            raise dist.DistBackendError(
                f"Rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))} failed to pass monitoredBarrier "
                f"in {milliseconds} ({what}):{reasons}"
            )

"""send, recv, and monitored_barrier, which is made of them."""

# torch.distributed exports less to mypy than to its users.
# mypy: disable-error-code="attr-defined"

from __future__ import annotations

import itertools
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from unisono import _core, errors
from unisono.torch.pure._calls import Calls, Tensors
from unisono.torch.pure._errors import translating
from unisono.torch.pure._tensors import check, check_dense, check_writable, flat, is_packed, packed, settle_into
from unisono.torch.pure._work import Plan, PythonWork, begun

MONITORED = 1 << 40
"""Tags of users are ints; these are beyond them."""


class Messages(Calls):
    """Each checks its arguments before anything is sent."""

    _monitored: itertools.count[int]

    def send(self, tensors: Tensors, dst: int, tag: int) -> PythonWork:
        """Torch's."""
        title = "unisono:send"
        t = self._checked_message(tensors, tag, title)
        source = flat(packed(t))
        return self._message(self._plan(title, lambda **o: self._group.isend(source, dst, tag, **o), [t], [t]))

    def recv(self, tensors: Tensors, src: int, tag: int) -> PythonWork:
        """Torch's."""
        return self._receive(tensors, src, tag, "unisono:recv")

    def recv_anysource(self, tensors: Tensors, tag: int) -> PythonWork:
        """Torch's."""
        return self._receive(tensors, _core.ANY_RANK, tag, "unisono:recvAnySource")

    recvAnysource = recv_anysource  # noqa: N815 - as torch's C++ calls it

    def _checked_message(self, tensors: Tensors, tag: int, title: str) -> torch.Tensor:
        check(len(tensors) == 1, title, ": ", len(tensors), " tensors were given, one is needed")
        check(tag >= 0, title, ": tag ", tag, " is negative")
        check_dense(tensors[0], title)
        return tensors[0]

    def _receive(self, tensors: Tensors, src: int, tag: int, title: str) -> PythonWork:
        t = self._checked_message(tensors, tag, title)
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
        """Every rank reports to rank 0, which answers when all have: so rank 0 knows who is missing."""
        what, tag, token = self._title("unisono: monitored_barrier"), next(self._monitored), bytearray(1)
        seconds = self._limit(timeout)
        until = time.monotonic() + seconds
        milliseconds = f"{seconds * 1000:.0f} ms"

        def left() -> float:
            return max(until - time.monotonic(), 0.001)

        if self._rank != 0:
            try:
                self._group.send(token, 0, tag, timeout=left())
                self._group.recv(token, 0, tag, timeout=left())
            except errors.Error as error:
                raise dist.DistBackendError(
                    f"Rank {self._rank} successfully reached monitoredBarrier, but received errors while waiting for "
                    f"send/recv from rank 0. Please check rank 0 logs for faulty rank. {what}: {error}"
                ) from None
            return
        missing: list[str] = []
        for r in range(1, self._size):
            if seconds <= 0:
                raise RuntimeError(f"Rank 0 timed out in monitoredBarrier after {milliseconds}. {what}")
            try:
                self._group.recv(token, r, tag, timeout=left())
            except errors.Error as error:
                missing.append(f"\n  rank {r}: {error}")
                if not wait_all_ranks:
                    break
        if missing:
            names = ", ".join(text.split()[1].rstrip(":") for text in missing)
            raise dist.DistBackendError(
                f"Rank{'s' if len(missing) > 1 else ''} {names} failed to pass monitoredBarrier in {milliseconds} "
                f"({what}):{''.join(missing)}"
            )
        with translating(what):
            for r in range(1, self._size):
                self._group.send(token, r, tag, timeout=left())

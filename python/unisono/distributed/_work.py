"""Operations in flight, as torch.distributed shows them, and futures whose callbacks run on a thread of their own."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from unisono import _core
from unisono.errors import InvalidArgument


class Work:
    """An operation in flight, from async_op=True, isend or irecv. Dropping it cancels nothing.

    Do not read what the operation writes, nor change what it reads, before wait() has returned. Any thread.
    """

    def __init__(self, works: Sequence[_core.Work], results: Sequence[Any], sources: Sequence[int] = ()) -> None:
        self._works = works
        self._results = list(results)
        self._sources = sources

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Block until it is done, and return True. Raises what went wrong; Timeout when `timeout` passes before."""
        if isinstance(timeout, timedelta) and not timeout:
            timeout = None  # torch's own way of saying "the group's"
        for work in self._works:
            work.wait(timeout)
        return True

    def synchronize(self) -> None:
        """As wait()."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether it is done, well or not. Never blocks."""
        return all(work.done() for work in self._works)

    def is_success(self) -> bool:
        """Whether it is done and went well. Never blocks."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        """What went wrong, when it is done and failed; otherwise None. Never blocks."""
        return next((error for work in self._works if (error := work.error()) is not None), None)

    def result(self) -> list[Any]:
        """The arrays that it wrote to, once it is done."""
        if not self.is_success():
            raise self.exception() or InvalidArgument("Work.result: the operation is not done yet; wait() first")
        return self._results

    def source_rank(self) -> int:
        """For irecv, once it is done: the global rank of the sender."""
        source = self._works[0].received().source
        return self._sources[source] if self._sources else source

    _source_rank = source_rank

    def get_future(self) -> Future:
        """A Future with result() as its value."""
        future = Future()
        future._awaited = self.wait
        left = len(self._works)
        lock = threading.Lock()

        def one_done() -> None:
            nonlocal left
            with lock:
                left -= 1
                last = left <= 0
            if last and self.is_completed():
                future._end(self._results, self.exception())

        future._settle = lambda: future._end(self._results, self.exception())
        for work in self._works:
            _callbacks().watch(work, one_done)
        if not self._works:
            one_done()
        return future

    def __repr__(self) -> str:
        return f"<unisono.distributed.Work: {'done' if self.is_completed() else 'in flight'}>"


class Future:
    """A value that is there later. Callbacks run on one thread of this process, or at once where it is there."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], Any]] = []
        # What makes it there, for a thread that waits: it need not wait for the thread that runs
        # callbacks.
        self._awaited: Callable[[], Any] | None = None
        self._settle: Callable[[], Any] | None = None

    def done(self) -> bool:
        """Whether there is a value, or an error."""
        return self._done.is_set()

    def wait(self) -> Any:
        """Block until it is there, and return the value. Raises the error."""
        if self._awaited is not None and not self.done():
            with contextlib.suppress(Exception):  # value() raises it
                self._awaited()
            if self._settle is not None:
                self._settle()
        self._done.wait()
        return self.value()

    def value(self) -> Any:
        """The value, once it is there. Raises the error."""
        if not self.done():
            raise InvalidArgument("Future.value: the value is not there yet; wait() first")
        if self._error is not None:
            raise self._error
        return self._value

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """Call callback(this future) once it is there; returns a Future of what that returns or raises."""
        following = Future()
        following._awaited = self.wait

        def follow(future: Future) -> None:
            try:
                following.set_result(callback(future))
            except BaseException as error:  # told by the future that follows
                following.set_exception(error)

        self.add_done_callback(follow)
        return following

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call callback(this future) once it is there. What it raises is told by the thread that calls it."""
        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(callback)
                return
        callback(self)

    def set_result(self, result: Any) -> None:
        """Make the value there."""
        self._require_end(self._end(result, None))

    def set_exception(self, result: BaseException) -> None:
        """Make an error there."""
        self._require_end(self._end(None, result))

    def _end(self, value: Any, error: BaseException | None) -> bool:
        with self._lock:
            if self._done.is_set():
                return False
            self._value, self._error = value, error
            callbacks, self._callbacks = self._callbacks, []
            self._done.set()
        for callback in callbacks:
            callback(self)
        return True

    @staticmethod
    def _require_end(first: bool) -> None:
        if not first:
            raise InvalidArgument("Future: it has a value already")


class _Callbacks:
    """The thread that runs what is to follow operations: never the library's own, so it may begin new ones."""

    def __init__(self) -> None:
        self._completions = _core.Completions()
        self._waiting: dict[int, Callable[[], None]] = {}
        self._last = 0
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="unisono-callbacks", daemon=True).start()

    def watch(self, work: _core.Work, callback: Callable[[], None]) -> None:
        with self._lock:
            self._last += 1
            token = self._last
            self._waiting[token] = callback
        self._completions.watch(work, token)

    def _run(self) -> None:
        while True:
            token = self._completions.next()
            with self._lock:
                callback = self._waiting.pop(token)
            try:
                callback()
            except Exception:  # a callback's; the others still run
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


_made: dict[int, _Callbacks] = {}
_making = threading.Lock()


def _callbacks() -> _Callbacks:
    """This process's; a forked child has none of its parent's threads."""
    with _making:
        here = os.getpid()
        if here not in _made:
            _made[here] = _Callbacks()
        return _made[here]

"""torch's Work over unisono's, in Python."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from unisono import _core, errors
from unisono.torch.pure._errors import Health, translated, translating


@dataclass
class Outcome:
    """What a future holds: `value()` makes it, in ProcessGroupNCCL's forms; `tensors` are the results one by one."""

    tensors: list[torch.Tensor]
    value: Callable[[], Any]


@dataclass
class Plan:
    """A call of c10d, ready to run: its names in traces and errors, what unisono runs, what is left to do after."""

    title: str
    what: str
    run: Callable[..., Any]
    inputs: list[torch.Tensor]
    outcome: Outcome
    flights: Flights
    finish: Callable[[], None] | None = None
    earlier: Sequence[Callable[[], PythonWork | None]] = ()
    """Of a barrier: what is done before it is, and has its results in place when it is."""
    is_message: bool = False

    def recording(self) -> AbstractContextManager[Any]:
        """An event in the profiler's trace while it is open, if a profiler runs. It may end in any thread."""
        if not torch._C._autograd._profiler_enabled():
            self.flights.events.clear()
            return nullcontext()
        return Recording(self)


class Recording:
    """An event that ends in another thread: so torch takes it for asynchronous, as long as its object lives."""

    def __init__(self, plan: Plan) -> None:
        self._event: Any = torch._C._profiler._RecordFunctionFast(plan.title, plan.inputs)
        self._begun_in = threading.get_ident()
        plan.flights.events.append(self._event)

    def __enter__(self) -> None:
        self._event.__enter__()

    def __exit__(self, *failure: object) -> None:
        if threading.get_ident() != self._begun_in:
            self._event.__exit__(None, None, None)
            return
        ending = threading.Thread(target=self._event.__exit__, args=(None, None, None))
        ending.start()
        ending.join()


KEPT = 64
"""So many works that nobody has waited for are kept, if their results have no more than SMALL elements."""
SMALL = 256
EVENTS = 100_000
"""So many events of the profiler are kept while it runs."""


@dataclass
class Flights:
    """The asynchronous operations of a group. Any thread."""

    health: Health = field(default_factory=Health)
    live: weakref.WeakSet[PythonWork] = field(default_factory=weakref.WeakSet)
    dropped: deque[tuple[_core.Work, bool]] = field(default_factory=deque)
    """Those that go on without their PythonWork, and whether each is a message."""
    kept: deque[PythonWork] = field(default_factory=lambda: deque(maxlen=KEPT))
    """Torch's DDP.join() gives one to C++, where it waits for ever if the work's Python part is gone by then."""
    events: deque[Any] = field(default_factory=lambda: deque(maxlen=EVENTS))
    """Of the profiler that runs, or ran last."""
    callers: set[int] = field(default_factory=set)
    """Threads that wait in a call."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Of `live` and `dropped`, but for what a finalizer does, which must not wait."""

    @contextmanager
    def caller(self) -> Iterator[None]:
        """This thread waits in a call meanwhile."""
        me = threading.get_ident()
        self.callers.add(me)
        try:
            yield
        finally:
            self.callers.discard(me)

    def add(self, work: PythonWork) -> None:
        """One that has begun."""
        with self.lock:
            for _ in range(len(self.dropped)):
                operation, is_message = self.dropped.popleft()
                if not operation.done():
                    self.dropped.append((operation, is_message))
            self.live.add(work)
        if sum(t.numel() for t in work.results) <= SMALL:
            self.kept.append(work)

    def settle(self) -> None:
        """Have the results of those that are done in the user's tensors."""
        for work in self._living():
            work.settle()

    def landing(self) -> list[Callable[[], PythonWork | None]]:
        """Those whose results are yet to be copied. Collectives are done in order, and the copies are not."""
        return [weakref.ref(work) for work in self._living() if work.lands]

    def finish(self, patience: float) -> bool:
        """Wait so many seconds for those that nobody can wait for any more; whether all collectives are done then."""
        works = [work for work in self._living() if work.operation is not None]
        dropped = list(self.dropped)
        _wait([*(operation for operation, _ in dropped), *(w.operation for w in works if w.lands)], patience)
        collectives = [operation for operation, is_message in dropped if not is_message]
        collectives += [w.operation for w in works if not w.is_message]
        _wait(collectives, min(patience, 1.0))
        self.settle()
        return all(operation.done() for operation in collectives)

    def _living(self) -> list[PythonWork]:
        with self.lock:
            return list(self.live)


def _wait(operations: list[_core.Work], seconds: float) -> None:
    until = time.monotonic() + seconds
    for operation in operations:
        with suppress(errors.Error):
            operation.wait(max(until - time.monotonic(), 0.0))


class PythonWork(dist.Work):
    """An operation that is done, or in flight. Any thread."""

    def __init__(self, plan: Plan, work: _core.Work | None, event: AbstractContextManager[Any] | None = None) -> None:
        super().__init__()
        self._plan, self._work = plan, work
        self._lock = threading.Lock()
        self._settled = work is None
        self._result = 0
        # Results are copied, and callbacks run, in the mode of the thread that called.
        self._inference, self._grad = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
        self._error: BaseException | None = None
        self._future: Any = None
        self._watcher: threading.Thread | None = None
        self._event, self._recorded = event, threading.Event()
        plan.inputs = []
        del plan.run  # it refers to the group, which refers to its works
        if work is not None:
            plan.flights.add(self)
            if plan.finish is not None or event is not None:
                self._watch()

    def __del__(self) -> None:
        if self._work is not None and not self._settled and not self._work.done():
            self._plan.flights.dropped.append((self._work, self._plan.is_message))

    @property
    def lands(self) -> bool:
        """Its results are yet to be copied to the user's tensors."""
        return self._plan.finish is not None

    @property
    def is_message(self) -> bool:
        """And not a collective."""
        return self._plan.is_message

    @property
    def operation(self) -> Any:
        """What unisono runs; None for one that was done when it was made."""
        return self._work

    @property
    def results(self) -> list[torch.Tensor]:
        """One by one, whether or not it is done."""
        return self._plan.outcome.tensors

    def settle(self) -> bool:
        """Whether the results are in the user's tensors, or the error is known. Does not wait for other ranks."""
        if self._settled:
            return True
        assert self._work is not None
        if not self._work.done():
            return False
        for landing in self._plan.earlier:  # before our lock: they take theirs
            if (work := landing()) is not None:
                work.settle()
        with self._lock:
            if self._settled:
                return True
            try:
                error = self._work.error()
                self._plan.flights.health.note(error)
                self._result = 0 if error is None else 1 if isinstance(error, errors.Timeout) else 2
                self._error = translated(error, self._plan.what) if error is not None else None
                if error is None and self._plan.finish is not None:
                    self._plan.finish()
            except Exception as error:
                self._error = error
            self._plan.finish = None
            self._settled = True
        return True

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Block until it is done; with a time-out raise DistBackendError when that passes, and it goes on."""
        limit = timeout.total_seconds() if timeout > timedelta(0) else None
        if not self._settled:
            assert self._work is not None
            try:
                with self._plan.flights.caller():
                    self._work.wait(limit)
            except errors.Timeout:
                if not self._work.done():
                    raise dist.DistBackendError(
                        f"{self._plan.what}: timeout : wait() gave up after {1000 * timeout.total_seconds():.0f} ms;"
                        " the operation goes on: wait again, or abort the group"
                    ) from None
            except errors.Error:
                pass  # settle() has it
            self.settle()
        if self._event is not None:
            self._recorded.wait()  # who has waited for the work finds its event complete
        if self._error is not None:
            raise self._error
        if self._future is not None and threading.current_thread() is not self._watcher:
            self._future.wait()  # who has waited for the work finds its future completed
        return True

    def is_completed(self) -> bool:
        """Done, well or not."""
        return self.settle()

    def is_success(self) -> bool:
        """Done, and well."""
        return self.settle() and self._error is None

    def exception(self) -> BaseException | None:
        """What went wrong, when it is done."""
        return self._error if self.settle() else None

    def result(self) -> list[torch.Tensor]:
        """The result's tensors."""
        if not self.settle():
            raise RuntimeError("unisono: result() of an operation that is not done; wait() first")
        return self._plan.outcome.tensors

    def source_rank(self) -> int:
        """Who sent, for a receive that is done; otherwise -1."""
        if self._work is None or not self.settle() or self._error is not None:
            return -1
        with translating(self._plan.what):
            return int(self._work.received().source)

    _source_rank = source_rank

    def synchronize(self) -> None:
        """Nothing to do for CPU memory."""

    def abort(self) -> None:
        """Not one operation alone, for the other ranks take part in it."""
        raise RuntimeError(
            "unisono: one operation cannot be aborted alone, for the other ranks take part in it; abort its group: "
            "torch.distributed.distributed_c10d._abort_process_group(group)"
        )

    def get_future(self) -> Any:
        """As ProcessGroupNCCL's; a failure is a RuntimeError with the text, as torch makes of what Python raises."""
        done = self.settle()
        with self._lock:
            if self._future is None:
                self._promise: Any = torch.futures.Future()
                # Torch's C++ users, DDP among them, see an error only where a callback raised it.
                self._future = self._promise.then(lambda _: self._value())
        if done:
            self._complete()
        else:
            self._watch()
        return self._future

    def get_future_result(self) -> Any:
        """c10d's WorkResult: 0 when it went well, 1 for a time-out, 2 for another failure."""
        result: Any = torch.futures.Future()

        def told(future: Any) -> None:
            result.set_result(self._result)

        self.get_future().add_done_callback(told)
        return result

    def _value(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._plan.outcome.value()

    def _complete(self) -> None:
        with self._lock:
            promise = self._promise if self._future is not None and not self._promise.done() else None
            if promise is not None and not getattr(self, "_told", False):
                self._told = True
            else:
                promise = None
        if promise is not None:
            with torch.inference_mode(self._inference), torch.set_grad_enabled(self._grad):
                promise.set_result(None)  # callbacks run here

    def _watch(self) -> None:
        """Have settle(), and the future's completion, run in a thread of their own: they must hold nobody up."""
        with self._lock:
            if self._watcher is not None:
                return
            self._watcher = threading.Thread(target=self._wait_and_complete, name="unisono-work", daemon=True)
        self._watcher.start()

    def _wait_and_complete(self) -> None:
        assert self._work is not None
        try:
            self._work.wait()
        except errors.Error:
            pass
        finally:
            self.settle()
            if self._event is not None:
                self._event.__exit__(None, None, None)
                self._recorded.set()
            self._complete()


def begun(plan: Plan, **options: Any) -> PythonWork:
    """The plan in flight."""
    event = plan.recording()
    event.__enter__()
    try:
        work = plan.run(**options)
    except BaseException:
        event.__exit__(None, None, None)
        raise
    return PythonWork(plan, work, None if isinstance(event, nullcontext) else event)

"""Hooks that know of steps: what begins and ends one, and the link to DistributedDataParallel."""

# No `from __future__ import annotations` here: DDP compares a hook's annotations with the types themselves.

from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from unisono.torch.hooks._bucket import Bucket
from unisono.torch.hooks._collectives import Group


@dataclass
class StepContext:
    """One backward pass whose gradients are reduced. The same object from begin_step to end_step."""

    step: int
    """Counts from 0; passes under no_sync are no steps of their own, their gradients come with the next one."""
    group: Group
    rank: int
    size: int
    absent: bool
    """This rank ran out of data: Join lets it take part in the others' step, with gradients that are zeros.

    It still sends what it owes: residuals of compression, and its share of noise.
    """
    skipped: bool = False
    """Set by a reducer when nobody had data: all gradients are zeros, and the optimizer has nothing to learn."""


class StepReducer(Protocol):
    """How gradients are aggregated: subclass it and write `reduce`.

    All methods are called on the thread of the backward pass, one after the other, in the same order on all ranks. An
    exception ends the backward pass; after it the next call is begin_step.
    """

    of_sums: bool = False
    """Whether results depend on the ranks' buffers only through each entry's sum over all ranks, but for rounding.

    Only then do the ranks' shares of noise add up to what ClippedNoisy promises. Not where a rank chooses by value
    what it sends, takes signs, or weighs.
    """

    def registered(self, model: DistributedDataParallel) -> None:
        """Called by `register`, on every rank, with the model whose gradients are reduced. Must not communicate."""
        return None

    def begin_step(self, ctx: StepContext) -> None:
        """Called before the first bucket of a step; the step before may have been cut short. May communicate."""
        return None

    def reduce(self, ctx: StepContext, bucket: Bucket) -> Future[torch.Tensor]:
        """Aggregate one bucket: a future of the mean over ranks, or what stands for it, as long as the buffer.

        Should return without waiting, so that the backward pass goes on, except for the last bucket, after which DDP
        waits itself. The future may be completed as late as the last bucket's call. Callbacks chained to a
        collective's future run on another thread and must not start collectives (see _collectives).
        """
        ...

    def end_step(self, ctx: StepContext) -> None:
        """Called when all buckets of the step are reduced, before backward() returns. May communicate."""
        return None


class Around(StepReducer):
    """A reducer that changes what another one reduces: the base of what composes."""

    def __init__(self, inner: StepReducer) -> None:
        self.inner = inner

    def registered(self, model: DistributedDataParallel) -> None:
        """Tell the inner reducer."""
        self.inner.registered(model)

    def begin_step(self, ctx: StepContext) -> None:
        """Begin the inner reducer's step."""
        self.inner.begin_step(ctx)

    def end_step(self, ctx: StepContext) -> None:
        """End the inner reducer's step."""
        self.inner.end_step(ctx)


class Steps:
    """The state of `step_hook`: makes steps of buckets, and holds the reducer, which may be replaced at any time.

    It can be pickled without its group: afterwards it uses the default group, unless `group` is set again. A step that
    was under way is not part of it.
    """

    def __init__(self, reducer: StepReducer, group: Group = None) -> None:
        self.group = group
        self.last: StepContext | None = None
        """The last step that ended."""
        self._reducer = reducer
        self._next = reducer
        self._count = 0
        self._context: StepContext | None = None
        self._futures: list[Future[torch.Tensor]] = []

    @property
    def reducer(self) -> StepReducer:
        """What reduces the next step."""
        return self._next

    def replace(self, reducer: StepReducer) -> None:
        """Use another reducer from the next step on. All ranks must do so between the same two steps."""
        self._next = reducer

    def take(self, bucket: Bucket) -> Future[torch.Tensor]:
        """Reduce a bucket; beginnings and ends of steps follow from its index and is_last."""
        if bucket.index == 0:
            self._begin()
        ctx = self._context
        if ctx is None or bucket.index != len(self._futures):
            raise RuntimeError(
                f"rank {dist.get_rank(self.group)}: gradient bucket {bucket.index} came where "
                f"{0 if ctx is None else len(self._futures)} was expected: a hook's state belongs to one model; "
                "make a Steps for each"
            )
        try:
            future = self._reducer.reduce(ctx, bucket)
            self._futures.append(future)
            if bucket.is_last:
                self._end(ctx)
        except BaseException:
            self._context = None
            raise
        return future

    def _begin(self) -> None:
        self._reducer, self._futures, self._context = self._next, [], None
        ctx = StepContext(
            step=self._count,
            group=self.group,
            rank=dist.get_rank(self.group),
            size=dist.get_world_size(self.group),
            # Join calls hooks outside of any backward pass, to shadow the collectives of ranks that still have data.
            absent=torch._C._current_graph_task_id() == -1,
        )
        self._reducer.begin_step(ctx)
        self._context = ctx

    def _end(self, ctx: StepContext) -> None:
        # Waiting here costs nothing: all gradients are there, and DDP would wait for the same futures next.
        for future in self._futures:
            future.wait()
        self._reducer.end_step(ctx)
        self.last, self._context, self._futures = ctx, None, []
        self._count += 1

    def __getstate__(self) -> dict[str, Any]:
        return {"reducer": self._next, "count": self._count}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["reducer"])  # type: ignore[misc]
        self._count = state["count"]


def step_hook(state: Steps, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Reduce with `state`'s reducer: `model.register_comm_hook(Steps(reducer, group), step_hook)`."""
    return state.take(Bucket.of(bucket))


def register(model: DistributedDataParallel, reducer: StepReducer) -> Steps:
    """Let a reducer aggregate a model's gradients; `replace` of what is returned exchanges it later.

    Call it on every rank, before the first step. Raises RuntimeError when the model has a hook: DDP takes one only.
    """
    steps = Steps(reducer, model.process_group)
    try:
        model.register_comm_hook(steps, step_hook)
    except RuntimeError as error:
        raise RuntimeError(
            "this DDP model has a communication hook already, and DDP takes only one: register once, "
            f"keep what register returns, and call its replace (torch says: {error})"
        ) from error
    reducer.registered(model)
    return steps

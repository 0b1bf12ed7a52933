"""unisono's errors as those that torch's users catch. The C++ back end has the same (bindings/torch/errors.cc)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed as dist

from unisono import errors


def translated(error: BaseException, what: str) -> BaseException:
    """What torch raises in such a case, with unisono's text behind "what: "; anything else as it is."""
    if not isinstance(error, errors.Error):
        return error
    # "timeout" between blanks is a word that people, and PyTorch's own tests, look for.
    text = f"{what}: timeout : {error}" if isinstance(error, errors.Timeout) else f"{what}: {error}"
    if isinstance(error, errors.InvalidArgument):
        return RuntimeError(text)
    network = isinstance(error, errors.SystemError | errors.AuthenticationError)
    return (dist.DistNetworkError if network else dist.DistBackendError)(text)


class Health:
    """Which failure came last, as c10d's ErrorType: 0 none, 1 a time-out, 2 communication, 3 a rank that died."""

    failure = 0

    def note(self, error: BaseException | None) -> None:
        """An operation ended so. The caller's mistakes change nothing: nothing was sent."""
        if error is None or isinstance(error, errors.InvalidArgument):
            return
        late, died = isinstance(error, errors.Timeout), isinstance(error, errors.RankFailure)
        self.failure = 1 if late else 3 if died else 2


@contextmanager
def translating(what: str, health: Health | None = None) -> Iterator[None]:
    """Raise translated() errors only."""
    try:
        yield
    except errors.Error as error:
        if health is not None:
            health.note(error)
        raise translated(error, what) from None

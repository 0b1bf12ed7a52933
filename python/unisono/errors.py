"""What can go wrong. Everything that unisono raises is an `Error`; the fields say what the message says in words.

Messages name the rank (host, pid), the operation (group, sequence number, dtype, bytes), how long it took, and what to
do. The classes have the names that they have in C++.
"""
# ruff: noqa: N818 - hence no suffix Error

from __future__ import annotations

__all__ = [
    "Aborted",
    "AuthenticationError",
    "Error",
    "InvalidArgument",
    "Mismatch",
    "RankFailure",
    "SystemError",
    "Timeout",
]


class Error(RuntimeError):
    """Base of all that the library raises. A RuntimeError, as torch.distributed's are."""

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the fields when an error travels between processes."""
        return (_rebuild, (type(self), dict(self.__dict__), str(self)))


class InvalidArgument(Error, ValueError):
    """The caller's mistake: a bad argument, a read-only array, use after destroy. Nothing was sent.

    With UNISONO_DEBUG=buffers also memory that was changed while an operation was in flight.
    """


class RankFailure(Error):
    """A rank died or left while others needed it. All survivors raise the same first reason."""

    rank: int
    """The rank that failed, in the numbering of the group that raised."""
    host: str
    """Its host name."""
    pid: int
    """Its process id there."""

    def __init__(self, message: str, rank: int = -1, host: str = "", pid: int = 0) -> None:
        super().__init__(message)
        self.rank, self.host, self.pid = rank, host, pid


class Mismatch(Error):
    """Two ranks called different things: the collective, dtype, count, root or op differ."""

    rank: int
    """One of the two ranks."""
    other: int
    """The rank whose call differs from it."""

    def __init__(self, message: str, rank: int = -1, other: int = -1) -> None:
        super().__init__(message)
        self.rank, self.other = rank, other


class Timeout(Error, TimeoutError):
    """A deadline passed."""

    missing: list[int]
    """The ranks that had not arrived, where that is known."""

    def __init__(self, message: str, missing: list[int] | None = None) -> None:
        super().__init__(message)
        self.missing = list(missing or [])


class SystemError(Error, OSError):
    """The operating system or the network refused something: a port in use, an unreachable address, no memory."""

    code: int
    """The errno, or 0."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.errno = code

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the code; OSError has a form of its own."""
        return (SystemError, (str(self), self.code))


class AuthenticationError(Error):
    """A peer could not prove that it belongs to the job, or this process could not to it."""


class Aborted(Error):
    """The group was aborted by a call to abort(), here or on another rank."""


def _rebuild(kind: type[Error], fields: dict[str, object], message: str) -> Error:
    error = kind(message)
    error.__dict__.update(fields)
    return error

# Made by bindings/make_stub.py from the signatures and docstrings in bindings/. Do not edit.

"""unisono._core: the C++ library. Use it through the package unisono."""

import datetime
import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, SupportsIndex, TypeVar, overload

from numpy.typing import DTypeLike, NDArray

from unisono._types import Array, Counts, Op, Parts, Seconds

T = TypeVar("T")
Number = TypeVar("Number", int, float, complex)
__version__: str

class ReduceOp(enum.Enum):
    """
    How elements are combined. Wherever one is expected its name does as well: op="max".

    avg is the sum divided once by the number of ranks, not for bool; of integers the sum wraps as in sum, and the
    quotient is truncated towards zero (-3 / 2 is -1), as NCCL does. min and max propagate NaN
    whichever rank holds it; band, bor and bxor are for integers and bool.
    """

    sum = 0

    avg = 1

    product = 2

    min = 3

    max = 4

    band = 5

    bor = 6

    bxor = 7

class Received:
    """What a recv got."""

    @property
    def source(self) -> int:
        """The rank that sent it."""

    @property
    def tag(self) -> int:
        """The tag it was sent with."""

    @property
    def bytes(self) -> int:
        """How many bytes it had; the rest of the buffer is as it was."""

    def __repr__(self) -> str: ...

ANY_RANK: int = -1

NULL_RANK: int = -2

ANY_TAG: int = -9223372036854775808

class Config:
    """
    All settings. Each can come from an environment variable, named in its description; explicit values win.
    """

    def __init__(self) -> None:
        """The defaults, without looking at the environment."""

    @staticmethod
    def from_env() -> Config:
        """
        Read the environment. Raises InvalidArgument naming the variable and what is wrong with it.
        """

    @property
    def rank(self) -> int:
        """
        Which one this process is. UNISONO_RANK, or as torchrun, Slurm, Open MPI and MPICH say it.
        """

    @rank.setter
    def rank(self, arg: int, /) -> None: ...
    @property
    def size(self) -> int:
        """How many there are. UNISONO_SIZE, likewise."""

    @size.setter
    def size(self, arg: int, /) -> None: ...
    @property
    def local_size(self) -> int:
        """
        Ranks on this host, as the launcher says; 0: unknown. UNISONO_LOCAL_SIZE.
        """

    @property
    def launcher(self) -> str:
        """
        Who started the ranks: unisono, torchrun, slurm, openmpi, mpich or none.
        """

    @launcher.setter
    def launcher(self, arg: str, /) -> None: ...
    @property
    def init_method(self) -> str:
        """
        Where ranks meet: tcp://HOST:PORT (rank 0 serves), file://PATH, env://. UNISONO_INIT_METHOD.
        """

    @init_method.setter
    def init_method(self, arg: str, /) -> None: ...
    @property
    def job(self) -> str:
        """Names the job, so that strays of another do not join. UNISONO_JOB."""

    @job.setter
    def job(self, arg: str, /) -> None: ...
    @property
    def secret(self) -> str:
        """
        Job secret, hexadecimal; every connection proves that it knows it. UNISONO_SECRET.
        """

    @secret.setter
    def secret(self, arg: str, /) -> None: ...
    @property
    def allow_insecure(self) -> bool:
        """
        Let ranks on several hosts meet without a secret. UNISONO_ALLOW_INSECURE=1.
        """

    @allow_insecure.setter
    def allow_insecure(self, arg: bool, /) -> None: ...
    @property
    def strict(self) -> bool:
        """
        What PyTorch users are only warned of is an error: several hosts, no secret. UNISONO_STRICT=1.
        """

    @strict.setter
    def strict(self, arg: bool, /) -> None: ...
    @property
    def transport(self) -> str:
        """
        Force one: shm or tcp; empty: the best for each pair. UNISONO_TRANSPORT.
        """

    @transport.setter
    def transport(self, arg: str, /) -> None: ...
    @property
    def interface(self) -> str:
        """
        Network interfaces or addresses to use, with commas between them; empty: by the route to the store.
        UNISONO_INTERFACE.
        """

    @interface.setter
    def interface(self, arg: str, /) -> None: ...
    @property
    def tcp_streams(self) -> int:
        """
        Connections over which large messages to a rank on another host travel side by side, 1 to 4; 0: chosen
        by measurement, one for each of its interfaces at least. UNISONO_TCP_STREAMS.
        """

    @tcp_streams.setter
    def tcp_streams(self, arg: int, /) -> None: ...
    @property
    def tcp_congestion(self) -> str:
        """
        The kernel's name of the congestion control of all connections over tcp; empty: the system's, but reno
        over loopback and, where the system's is BBR, to peers with a round trip below 1 ms. UNISONO_TCP_CONGESTION.
        """

    @tcp_congestion.setter
    def tcp_congestion(self, arg: str, /) -> None: ...
    @property
    def algorithm(self) -> str:
        """Appended to the selection table; rank 0's counts. UNISONO_ALGORITHM."""

    @algorithm.setter
    def algorithm(self, arg: str, /) -> None: ...
    @property
    def tuning(self) -> str:
        """
        Choose by what was measured for this layout: auto (and measure several hosts' links), cached or off;
        rank 0's counts. UNISONO_TUNING.
        """

    @tuning.setter
    def tuning(self, arg: str, /) -> None: ...
    @property
    def constants(self) -> str:
        """
        What links cost, in place of what is measured of them; rank 0's count. UNISONO_CONSTANTS.
        """

    @constants.setter
    def constants(self, arg: str, /) -> None: ...
    @property
    def cache(self) -> str:
        """Folder where that is kept; empty: nowhere. UNISONO_CACHE."""

    @cache.setter
    def cache(self, arg: str, /) -> None: ...
    @property
    def debug(self) -> str:
        """
        What is checked besides, words with commas between them: buffers, memory of operations in flight that the
        program changes. UNISONO_DEBUG.
        """

    @debug.setter
    def debug(self, arg: str, /) -> None: ...
    @property
    def fault(self) -> str:
        """
        Disturb the transports, for tests: partial,delay=1ms,seed=3. UNISONO_FAULT.
        """

    @fault.setter
    def fault(self, arg: str, /) -> None: ...
    @property
    def timeout(self) -> float:
        """Of each operation, in seconds. UNISONO_TIMEOUT."""

    @timeout.setter
    def timeout(self, value: float | datetime.timedelta, /) -> None: ...
    @property
    def init_timeout(self) -> float:
        """Of joining, in seconds. UNISONO_INIT_TIMEOUT."""

    @init_timeout.setter
    def init_timeout(self, value: float | datetime.timedelta, /) -> None: ...
    @property
    def slice_bytes(self) -> int:
        """Bytes of a slice of a block; 0: chosen. UNISONO_SLICE."""

    @slice_bytes.setter
    def slice_bytes(self, arg: int, /) -> None: ...
    @property
    def spin(self) -> int:
        """
        Rounds of spinning before yielding; -1: by the cores to spare. UNISONO_SPIN.
        """

    @spin.setter
    def spin(self, arg: int, /) -> None: ...

class Context:
    """
    What the groups of one process share: transports, the progress thread, shared memory. init() makes one;
    make your own to join groups through a store of yours, or when ranks are threads (one each).
    """

    @overload
    def __init__(self, config: Config) -> None: ...
    @overload
    def __init__(self) -> None: ...
    def create_group(self, store: Store, rank: int, size: int, name: str = "world") -> Group:
        """
        Join a group of `size` ranks through `store`; all ranks call it with the same name.

        Blocks until all are there. Raises Timeout naming the ranks that are missing when the configuration's
        init_timeout passes, InvalidArgument when rank or size make no sense.
        """

    @property
    def config(self) -> Config:
        """The settings it was made with (a copy)."""

class Latecomers:
    """
    The ranks that come after rank 0, which serves the store, has found that the world cannot be joined: they are
    still told why, for at most 3 s.
    """

    def __init__(self) -> None: ...
    def wait(self) -> None:
        """Block until all have been told, or the time is over."""

def init(config: Config, latecomers: Latecomers) -> Group:
    """Join the world that `config` describes. Use unisono.init()."""

class Store:
    """
    A small key-value service through which ranks find each other. Keys are strings up to 1 KiB, values bytes up to
    8 MiB. Any thread may use it. A lost server is a SystemError.
    """

    def set(self, key: str, value: bytes) -> None:
        """Set `key`; replaces an older value."""

    def get(self, key: str, timeout: float | datetime.timedelta = 300.0) -> bytes:
        """
        The value of `key`, waiting until somebody sets it. Raises Timeout naming the key.
        """

    def add(self, key: str, delta: int) -> int:
        """
        Atomically add to an integer (absent counts as 0) and return the sum. It is stored as decimal text.
        """

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        """
        Set `key` to `desired` if its value is `expected` (an absent key matches b""); returns the value after it.
        """

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there, without waiting."""

    def wait(self, keys: Sequence[str], timeout: float | datetime.timedelta = 300.0) -> None:
        """
        Wait until all keys are there. Raises Timeout naming those that are missing.
        """

    def erase(self, key: str) -> bool:
        """Remove a key; whether it was there."""

    def describe(self) -> str:
        """One line for error messages: "tcp store at 10.0.0.1:29500"."""

    def __repr__(self) -> str: ...

def make_memory_store() -> Store:
    """A store inside this process, for ranks that are threads."""

def make_file_store(path: str) -> Store:
    """
    A store in a file that all ranks can reach (also over NFS); `path` is created when absent.
    """

def make_tcp_store(address: str, *, serve: bool, timeout: float | datetime.timedelta = 300.0) -> Store:
    """
    A store at HOST:PORT, which one process serves and others connect to; at a loopback address for this user's
    processes alone, between hosts with the job's secret. It serves as long as the store lives.
    """

def make_prefix_store(prefix: str, inner: Store) -> Store:
    """All keys of `inner` under `prefix` + "/"."""

def settings_from_env() -> Config:
    """
    The settings of the environment and its secret, without rank, size and place to meet, whatever a launcher says: for
    programs that know those. Raises InvalidArgument naming the variable.
    """

def make_foreign_store(store: object, description: str) -> Store:
    """
    A store of another library: an object with torch.distributed.Store's methods set, get, add, compare_set, check,
    wait and delete_key. Any thread may use it; every call takes Python's lock. description: for error messages.
    """

def agree_on_secret(
    store: Store,
    rank: int,
    size: int,
    *,
    timeout: float | datetime.timedelta | None = None,
    one_host: bool = False,
    strict: bool = False,
    allow_insecure: bool = False,
) -> str:
    """
    A new job secret, in hexadecimal digits, the same on all ranks; every rank calls it once for one store.

    On one host it travels over a unix socket to processes of this user alone; between hosts through the store, with a
    warning. one_host: that all ranks are on this host is known from elsewhere, and a rank that says otherwise is
    refused. strict: several hosts are an error. allow_insecure: they need no warning.
    Blocks until all ranks have called (5 minutes by default). Raises Timeout naming those that have not,
    InvalidArgument for what the terms forbid, AuthenticationError when somebody else answers.
    """

def open_unguarded_store(config: Config) -> Store:
    """
    The store that init_method names, for agree_on_secret(): also between hosts without a secret, where it lets in
    whoever reaches the address and knows the job's name.
    """

def decline_secret(store: Store, rank: int, size: int, reason: str) -> None:
    """
    In place of agree_on_secret(), by a rank that cannot go on: the others' calls raise InvalidArgument with `reason`.
    """

class Work:
    """
    An operation in flight, from async_op=True, isend or irecv. It keeps the arrays alive until it is done, also
    when it is dropped, which does not cancel it. Do not read what it writes, nor change what it reads, before.
    A list of outputs is filled by wait(), by done() when it returns True, or, where the Work was dropped, by a
    later collective of the group.
    """

    def wait(self, timeout: float | datetime.timedelta | None = None) -> None:
        """
        Block until it is done; Ctrl-C works. Raises what went wrong.

        With a timeout (seconds): raises Timeout when it passes; the operation goes on, and may be waited for again.
        """

    def done(self) -> bool:
        """Whether it is done, well or not. Never blocks."""

    def error(self) -> BaseException | None:
        """
        The exception, when it is done and failed; otherwise None. Never blocks.
        """

    def received(self) -> Received:
        """For irecv, after it is done: who sent, with which tag, how many bytes."""

    def cancel(self) -> bool:
        """
        Give up a receive to which nothing has come: True, and wait() raises Aborted; the group goes on. False:
        something has come or is coming, or it is no receive, and it ends as it would have. Never blocks.
        """

    def __repr__(self) -> str: ...

def wait_all(works: Iterable[Work], timeout: float | datetime.timedelta | None = None) -> None:
    """
    Block until all are done, in any order; then raises what went wrong with the first that failed.

    With a timeout (seconds): raises Timeout when it passes; those that are not done go on.
    """

@overload
def wait_any(works: Iterable[Work]) -> int:
    """
    Block until one is done, well or not, and return its index: wait() on it raises what went wrong.

    Where several are done, the first of them. Raises InvalidArgument for an empty list.
    """

@overload
def wait_any(works: Iterable[Work], timeout: float | datetime.timedelta | None) -> int | None:
    """The same; None when the timeout (seconds) passes."""

def test_all(works: Iterable[Work]) -> bool:
    """Whether all are done, well or not. Never blocks."""

class Completions:
    """Which operations are done, in the order in which they came to an end."""

    def __init__(self) -> None:
        """None yet."""

    def watch(self, work: Work, token: int) -> None:
        """
        Let next() return `token` once `work` is done, well or not. Never blocks.
        """

    def next(self) -> int:
        """Block until one more is done; its token. Signals do not end it."""

class Registration:
    """
    An array whose memory the other ranks on this host can reach, from Group.register.

    It lasts until release(), or until the group is destroyed, also when nothing refers to it; as a context manager
    it is released at the end.
    """

    def release(self) -> None:
        """
        Give the array private memory again, with what it contains.

        No operation may be using it, and no thread write to it. A second release does nothing, nor does one in a
        forked child.
        """

    @property
    def shared(self) -> bool:
        """
        Whether other ranks can reach it now. False after release(), where ranks do not share memory, and for an array
        that covers no whole page.
        """

    @property
    def nbytes(self) -> int:
        """The array's size in bytes."""

    def __enter__(self) -> Registration: ...
    def __exit__(self, type: object, value: object, traceback: object, /) -> None: ...
    def __repr__(self) -> str: ...

class Group:
    """
    Ranks that do things together. All ranks call its collectives in the same order.

    Any thread may use it. Every blocking call ends: with success, or with an exception that names the rank; Ctrl-C
    works in all of them, and aborts the group when it ends a collective half-way. As a context manager it destroys
    itself at the end, or aborts when left by an exception.
    """

    @property
    def rank(self) -> int:
        """This process's number: 0 to size - 1."""

    @property
    def size(self) -> int:
        """How many ranks there are."""

    @property
    def name(self) -> str:
        """The group's name."""

    @property
    def transport(self) -> str:
        """How the members reach each other: shm, tcp, mixed or inproc."""

    @property
    def algorithms(self) -> str:
        """The selection table in force, as UNISONO_ALGORITHM has it."""

    @property
    def topology(self) -> str:
        """
        What figures measured on this group are true of: version, transport, which rank is on which host, processors
        and cores. Empty for a group of one, and for groups within a group.
        """

    @property
    def sequence_number(self) -> int:
        """Collectives started so far."""

    @property
    def destroyed(self) -> bool:
        """Whether destroy() was called here."""

    @property
    def made_here(self) -> bool:
        """
        False in a forked child of the process that made the group: there it can only be looked at, and every call
        raises InvalidArgument.
        """

    @overload
    def all_reduce(
        self,
        x: Array,
        op: Op = "sum",
        *,
        out: Array | None = None,
        async_op: Literal[False] = False,
        timeout: Seconds = None,
        algorithm: str | None = None,
    ) -> None:
        """
        Combine x of all ranks element by element; every rank gets the result.

        x: n elements on every rank; replaced by the result, or left alone when `out` (as many elements) is given.
        op: sum (the default: values grow with the number of ranks), avg, product, min, max, band, bor, bxor. All ranks
        get the same bits. Float16 and bfloat16 are summed in float32.

        Elements are float16, bfloat16, float32, float64, (u)int8 to (u)int64, bool, complex64 or complex128 (these two
        for sum, avg and product), in any array with the buffer protocol or DLPack: used in place, or through a copy
        where they do not lie side by side.

        A number (int, bool as 0 or 1, float, complex, a NumPy scalar) in place of x: the result is returned, of that
        type; an int counts as int64.

        Blocks until the result is there; with async_op=True returns a Work at once instead. timeout: seconds, or a
        timedelta.
        algorithm: by name, instead of the group's choice; the same on all ranks.
        Raises InvalidArgument (nothing was sent), Mismatch (ranks called different things), RankFailure, Timeout,
        Aborted.
        """

    @overload
    def all_reduce(
        self,
        x: Array,
        op: Op = "sum",
        *,
        out: Array | None = None,
        async_op: Literal[True],
        timeout: Seconds = None,
        algorithm: str | None = None,
    ) -> Work: ...
    @overload
    def all_reduce(
        self,
        x: Number,
        op: Op = "sum",
        *,
        out: None = None,
        async_op: Literal[False] = False,
        timeout: Seconds = None,
        algorithm: str | None = None,
    ) -> Number: ...
    @overload
    def reduce(
        self,
        x: Array,
        root: int = 0,
        op: Op = "sum",
        *,
        out: Array | None = None,
        async_op: Literal[False] = False,
        timeout: Seconds = None,
        algorithm: str | None = None,
    ) -> None:
        """
        Combine x of all ranks element by element; only `root` gets the result.

        x: n elements on every rank. At the root it is replaced by the result, or left alone when `out` is given; on
        every other rank it is never written. `out` is looked at on the root only. Otherwise as all_reduce.
        """

    @overload
    def reduce(
        self,
        x: Array,
        root: int = 0,
        op: Op = "sum",
        *,
        out: Array | None = None,
        async_op: Literal[True],
        timeout: Seconds = None,
        algorithm: str | None = None,
    ) -> Work: ...
    @overload
    def reduce(
        self,
        x: Number,
        root: int = 0,
        op: Op = "sum",
        *,
        out: None = None,
        async_op: Literal[False] = False,
        timeout: Seconds = None,
        algorithm: str | None = None,
    ) -> Number | None: ...
    @overload
    def broadcast(
        self,
        x: Array,
        root: int = 0,
        *,
        async_op: Literal[False] = False,
        timeout: Seconds = None,
        algorithm: str | None = None,
    ) -> None:
        """
        Give every rank what x holds at `root`.

        x: n elements on every rank, read at the root and written elsewhere. What only moves may be of any type without
        Python objects: records, strings, dates, float8. Otherwise as all_reduce.
        """

    @overload
    def broadcast(
        self, x: Array, root: int = 0, *, async_op: Literal[True], timeout: Seconds = None, algorithm: str | None = None
    ) -> Work: ...
    @overload
    def all_gather(
        self,
        x: Array,
        out: None = None,
        *,
        counts: Counts = None,
        async_op: Literal[False] = False,
        timeout: Seconds = None,
        algorithm: str | None = None,
    ) -> list[Any]:
        """
        Give every rank x of all ranks, in rank order.

        x: c elements on every rank; out: size * c elements, rank i's part at [i * c, (i + 1) * c), or a list of arrays,
        one for each rank, whose sizes may differ. x may be this rank's part of out.
        counts: one for each rank, equal on all ranks, when parts differ in size: x has counts[rank] elements, out
        their sum.
        Without out: returns a list with one new array for each rank. Otherwise as all_reduce.
        """

    @overload
    def all_gather(
        self,
        x: Array,
        out: Parts,
        *,
        counts: Counts = None,
        async_op: Literal[False] = False,
        timeout: Seconds = None,
        algorithm: str | None = None,
    ) -> None: ...
    @overload
    def all_gather(
        self,
        x: Array,
        out: Parts,
        *,
        counts: Counts = None,
        async_op: Literal[True],
        timeout: Seconds = None,
        algorithm: str | None = None,
    ) -> Work: ...
    @overload
    def gather(
        self,
        x: Array,
        out: None = None,
        root: int = 0,
        *,
        counts: Counts = None,
        async_op: Literal[False] = False,
        timeout: Seconds = None,
        algorithm: str | None = None,
    ) -> list[Any] | None:
        """
        Give `root` x of all ranks, in rank order.

        As all_gather at the root; other ranks get nothing, and their `out` is not looked at. Parts differ in size only
        where counts say so.
        Without out: returns a list with one new array for each rank at the root, None elsewhere.
        """

    @overload
    def gather(
        self,
        x: Array,
        out: Parts,
        root: int = 0,
        *,
        counts: Counts = None,
        async_op: Literal[False] = False,
        timeout: Seconds = None,
        algorithm: str | None = None,
    ) -> None: ...
    @overload
    def gather(
        self,
        x: Array,
        out: Parts | None = None,
        root: int = 0,
        *,
        counts: Counts = None,
        async_op: Literal[True],
        timeout: Seconds = None,
        algorithm: str | None = None,
    ) -> Work: ...
    @overload
    def scatter(
        self,
        x: Parts | None,
        out: Array,
        root: int = 0,
        *,
        counts: Counts = None,
        async_op: Literal[False] = False,
        timeout: Seconds = None,
        algorithm: str | None = None,
    ) -> None:
        """
        Give each rank its part of what x holds at `root`.

        x: size * c elements at the root, or a list of arrays, one for each rank; not looked at elsewhere (give None).
        out: c elements on every rank.
        counts: one for each rank, equal on all ranks, when parts differ in size: x has their sum, out counts[rank]
        elements. Otherwise as all_reduce.
        """

    @overload
    def scatter(
        self,
        x: Parts | None,
        out: Array,
        root: int = 0,
        *,
        counts: Counts = None,
        async_op: Literal[True],
        timeout: Seconds = None,
        algorithm: str | None = None,
    ) -> Work: ...
    @overload
    def reduce_scatter(
        self,
        x: Parts,
        out: None = None,
        op: Op = "sum",
        *,
        counts: Counts = None,
        async_op: Literal[False] = False,
        timeout: Seconds = None,
        algorithm: str | None = None,
    ) -> Any:
        """
        Combine x of all ranks element by element; each rank gets its part of the result.

        x: size * c elements on every rank, or a list of arrays, one for each rank, whose sizes may differ. out: c
        elements, the result's [rank * c, (rank + 1) * c). out may be that part of x.
        counts: one for each rank, equal on all ranks, when parts differ in size: x has their sum, out counts[rank]
        elements.
        Without out: returns a new array: x's shape with the first dimension divided by size (with counts: counts[rank]
        elements). Otherwise as all_reduce.
        """

    @overload
    def reduce_scatter(
        self,
        x: Parts,
        out: Array,
        op: Op = "sum",
        *,
        counts: Counts = None,
        async_op: Literal[False] = False,
        timeout: Seconds = None,
        algorithm: str | None = None,
    ) -> None: ...
    @overload
    def reduce_scatter(
        self,
        x: Parts,
        out: Array,
        op: Op = "sum",
        *,
        counts: Counts = None,
        async_op: Literal[True],
        timeout: Seconds = None,
        algorithm: str | None = None,
    ) -> Work: ...
    @overload
    def all_to_all(
        self,
        x: Parts,
        out: None = None,
        *,
        counts: Counts = None,
        output_counts: Counts = None,
        async_op: Literal[False] = False,
        timeout: Seconds = None,
        algorithm: str | None = None,
    ) -> Any:
        """
        Send each rank its part of x, and get a part from each.

        x: size * c elements, of which [j * c, (j + 1) * c) goes to rank j; out: as many, [j * c, (j + 1) * c) comes
        from rank j. When parts differ in size: counts[j] elements of x go to rank j, output_counts[j] of out come from
        rank j. Or both are lists of arrays, one for each rank, of any sizes.
        Without out: returns a new array of x's shape (with counts: one dimension). Otherwise as all_reduce.
        """

    @overload
    def all_to_all(
        self,
        x: Parts,
        out: Parts,
        *,
        counts: Counts = None,
        output_counts: Counts = None,
        async_op: Literal[False] = False,
        timeout: Seconds = None,
        algorithm: str | None = None,
    ) -> None: ...
    @overload
    def all_to_all(
        self,
        x: Parts,
        out: Parts,
        *,
        counts: Counts = None,
        output_counts: Counts = None,
        async_op: Literal[True],
        timeout: Seconds = None,
        algorithm: str | None = None,
    ) -> Work: ...
    @overload
    def barrier(
        self, *, async_op: Literal[False] = False, timeout: Seconds = None, algorithm: str | None = None
    ) -> None:
        """
        Wait until every rank has called it.

        With async_op=True returns a Work at once, which is done when every rank has called it.
        """

    @overload
    def barrier(self, *, async_op: Literal[True], timeout: Seconds = None, algorithm: str | None = None) -> Work: ...
    def send(self, x: Array, dst: int, tag: int = 0, *, timeout: Seconds = None) -> None:
        """
        Send the bytes of x to rank `dst`; blocks until x may be used again.

        Messages between two ranks with one tag do not overtake each other. x may have any element type. Raises
        InvalidArgument (dst is no rank, or this rank, which has posted no receive for it), RankFailure, Timeout,
        Aborted. To NULL_RANK nothing is sent.
        """

    def recv(self, x: Array, src: int = ANY_RANK, tag: int = 0, *, timeout: Seconds = None) -> Received:
        """
        Receive a message into x from rank `src`, or from any with ANY_RANK, the default.

        Blocks until it is there. x may be longer than the message: what lies behind it is left alone. Returns who
        sent, with which tag, how many bytes. With tag ANY_TAG: a message with any tag. From NULL_RANK: at once, and
        nothing. Raises InvalidArgument (src is no rank, or this rank, which has sent itself nothing; the message is
        longer than x), RankFailure, Timeout, Aborted. An exception from a signal handler (Ctrl-C) leaves the group
        usable where nothing had come; its note (Python 3.11) says whether that is so.
        """

    def isend(self, x: Array, dst: int, tag: int = 0, *, timeout: Seconds = None) -> Work:
        """
        As send, but returns a Work at once; x must not be changed before it is done. May be to this rank itself.
        """

    def irecv(self, x: Array, src: int = ANY_RANK, tag: int = 0, *, timeout: Seconds = None) -> Work:
        """
        As recv, but returns a Work at once; Work.received() says who sent. x must be contiguous.
        """

    def sendrecv(
        self, x: Array, dst: int, out: Array, src: int, send_tag: int = 0, recv_tag: int = 0, *, timeout: Seconds = None
    ) -> Received:
        """
        Send x to rank `dst` and receive from rank `src` into out, both at once: a ring of ranks that all do so goes on.

        dst and src may be one rank, this one, or NULL_RANK; src may be ANY_RANK, recv_tag ANY_TAG. x and out must not
        overlap. Blocks until both are done. Returns what recv does, and raises what send and recv do.
        """

    def sendrecv_replace(
        self, x: Array, dst: int, src: int, send_tag: int = 0, recv_tag: int = 0, *, timeout: Seconds = None
    ) -> Received:
        """
        As sendrecv with one array: what was in x is sent, from a copy, and what comes is in x afterwards.
        """

    def probe(self, src: int = ANY_RANK, tag: int = 0, *, timeout: Seconds = None) -> Received:
        """
        What the next recv with the same src and tag would get: who sent, with which tag, how many bytes.

        The message stays where it is. Blocks until there is one. So a message of unknown length is received:
            found = world.probe(tag=3)
            x = numpy.empty(found.bytes // 8)
            world.recv(x, found.source, found.tag)
        Where several threads receive, another one may take it first. Raises what recv does.
        """

    def iprobe(self, src: int = ANY_RANK, tag: int = 0) -> Received | None:
        """As probe, but None when no message is there now. Never blocks."""

    def broadcast_object(self, obj: Any = None, root: int = 0, *, pickle: bool = False, timeout: Seconds = None) -> Any:
        """
        Give every rank the object that `root` has; returns it.

        Objects are None, bool, int, float, complex, str, bytes, list, tuple, dict, NumPy arrays and scalars, torch CPU
        tensors. Others need pickle=True on all ranks: unpickling runs what the sender chose. UNISONO_PICKLE=0
        forbids it.
        Blocks until it is there. Raises InvalidArgument on all ranks for an object that cannot be sent; otherwise as
        all_reduce.
        """

    def all_gather_object(self, obj: Any, *, pickle: bool = False, timeout: Seconds = None) -> list[Any]:
        """
        Give every rank the objects of all ranks: a list, in rank order.

        As broadcast_object.
        """

    def gather_object(
        self, obj: Any, root: int = 0, *, pickle: bool = False, timeout: Seconds = None
    ) -> list[Any] | None:
        """
        Give `root` the objects of all ranks: a list, in rank order; None elsewhere.

        As broadcast_object.
        """

    def scatter_object(
        self, objects: Sequence[Any] | None = None, root: int = 0, *, pickle: bool = False, timeout: Seconds = None
    ) -> Any:
        """
        Give rank i the i-th of the objects that `root` has; returns it.

        objects: a list with one for each rank, looked at on the root only. As broadcast_object.
        """

    def send_object(self, obj: Any, dst: int, tag: int = 0, *, pickle: bool = False, timeout: Seconds = None) -> None:
        """
        Send an object to rank `dst`; blocks until it is on its way.

        As broadcast_object, but what cannot be sent is refused here, and nothing is sent.
        """

    def recv_object(
        self, src: int = ANY_RANK, tag: int = 0, *, pickle: bool = False, timeout: Seconds = None
    ) -> tuple[Any, int]:
        """
        Receive an object that send_object sent; returns it and the rank that sent it.

        src: ANY_RANK, the default, or a rank. One thread at a time may receive objects with one tag. As
        broadcast_object.
        """

    def all_gather_varying(self, x: Array, *, timeout: Seconds = None) -> list[Array]:
        """
        Every rank's x on every rank, as a list by rank, where no rank knows how long the others' are.

        x: any first dimension, 0 included; all others, and the type, are equal on all ranks. Returns new arrays. Two
        collectives: the lengths, then the data. Raises InvalidArgument on all ranks where rows differ in size, and
        otherwise what all_gather does.
        """

    def empty(self, shape: SupportsIndex | Sequence[SupportsIndex], dtype: DTypeLike = "float32") -> NDArray[Any]:
        """
        Return a new NumPy array in memory that the other ranks on this host can reach.

        As numpy.empty: its contents are not defined. Collectives whose arrays, or views of them, are such memory on
        all ranks copy nothing on the way: on large arrays they are about twice as fast as on others. Where ranks do
        not share memory it is an ordinary array. The memory lives as long as anything refers to it, the group or not.
        Children of fork() have a copy of their own, as of what is registered.

        shape: an integer or a sequence of them. dtype: anything that numpy.dtype takes, without Python objects.
        Not a collective: any rank at any time. Raises SystemError when there is no more memory.
        """

    def shares(self, array: Array) -> bool:
        """
        Whether the other ranks on this host reach an array's memory now, so that collectives on it copy nothing.

        It is so of arrays from empty(), of registered ones, and of those that large operations came back to: their
        pages are exchanged for shared ones where they are (docs/design/0012; UNISONO_SHARE_MEMORY=0 refuses).

        array: any contiguous one with the buffer protocol or DLPack. Any thread; does not block.
        """

    def register(self, array: Array) -> Registration:
        """
        Let the other ranks on this host reach an array's own memory; returns a Registration.

        Until it is released collectives on the array, or on views of it, copy nothing where those of all ranks are
        registered or come from empty(). The array stays where it is, with what it contains: the pages under it are
        exchanged for shared ones. Nothing beside it is shown to anybody. It costs about six copies of the array, so
        it is for arrays that are used often. It lasts until release(), or until the group is destroyed; the array is
        kept alive as long.

        array: any contiguous, writable one with the buffer protocol or DLPack, in ordinary memory. No operation may be
        using it, and no thread write to it, during the call. Do not resize its memory while it is registered.
        Children of fork() have a copy of their own, as ever; os.fork() makes one for all of them, and takes as long as
        copying or comparing what is registered. Where ranks do not share memory nothing happens.
        Not a collective: any rank at any time.
        Raises InvalidArgument for other kinds of memory (mapped files, shared or read-only memory, what is registered
        already), SystemError when there is no more shared memory.
        """

    def subgroup(self, ranks: Sequence[int], *, timeout: Seconds = None) -> Group:
        """
        The group of `ranks` (of this group, in that order: ranks[i] is rank i there).

        Called by its members only, all with the same list; the others do nothing. Blocks until all members are there.
        Raises InvalidArgument when a rank is out of range or listed twice, or this rank is not a member, RankFailure
        as soon as a member has died or left, the error of this group as soon as it has failed, and Timeout naming who
        is missing.
        """

    def split(self, colour: SupportsIndex, key: SupportsIndex = 0, *, timeout: Seconds = None) -> Group | None:
        """
        Every rank calls it; those with one colour form a group, ordered by (key, rank).

        Returns this rank's new group, or None for a negative colour. Blocks until all ranks have called it.
        """

    def split_by_host(self, key: SupportsIndex = 0, *, timeout: Seconds = None) -> Group:
        """
        The ranks that can share memory (those of one host, as a rule), ordered by (key, rank).

        Every rank calls it. As MPI's split_type with COMM_TYPE_SHARED.
        """

    def dup(self, *, timeout: Seconds = None) -> Group:
        """
        The same ranks once more, in a group of its own: its calls and messages do not meet those of this one. Every
        rank calls it.
        """

    def abort(self, reason: str) -> None:
        """
        End every operation in flight, here and on the other ranks, with Aborted, and every later call as well.

        `reason` is part of the message that they all see. Never blocks for long.
        """

    def destroy(self) -> None:
        """
        Finish what is in flight and leave. Later calls raise InvalidArgument. A second destroy does nothing.
        Ranks that still need this one in the group get RankFailure at once. What was sent before arrives.

        The world destroys itself when the interpreter ends, or aborts when it ends with an exception.
        """

    def __enter__(self) -> Group: ...
    def __exit__(self, type: object, value: object, traceback: object, /) -> None: ...
    def __repr__(self) -> str: ...

def spawn_threads(size: int, fn: Callable[[Group], T], config: Config | None = None) -> list[T]:
    """
    Ranks as threads of this process: calls fn(group) on `size` threads and returns what each returned, in rank order.

    Blocks until all have returned; raises the first exception. For tests, studies and notebooks.
    """

def encode_object(obj: Any, *, pickle: bool = False) -> bytes:
    """An object as the bytes that Group.broadcast_object and its kind send."""

def decode_object(data: bytes, *, pickle: bool = False) -> Any:
    """
    The object again. Raises InvalidArgument for bytes that are damaged, or pickled without pickle=True.
    """

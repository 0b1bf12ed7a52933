#pragma once
/// The docstrings of Group's operations.

namespace unisono::python::docs {

inline constexpr const char* kAllReduce = R"(Combine x of all ranks element by element; every rank gets the result.

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
Aborted.)";

inline constexpr const char* kReduce = R"(Combine x of all ranks element by element; only `root` gets the result.

x: n elements on every rank. At the root it is replaced by the result, or left alone when `out` is given; on
every other rank it is never written. `out` is looked at on the root only. Otherwise as all_reduce.)";

inline constexpr const char* kBroadcast = R"(Give every rank what x holds at `root`.

x: n elements on every rank, read at the root and written elsewhere. What only moves may be of any type without
Python objects: records, strings, dates, float8. Otherwise as all_reduce.)";

inline constexpr const char* kAllGather = R"(Give every rank x of all ranks, in rank order.

x: c elements on every rank; out: size * c elements, rank i's part at [i * c, (i + 1) * c), or a list of arrays,
one for each rank, whose sizes may differ. x may be this rank's part of out.
counts: one for each rank, equal on all ranks, when parts differ in size: x has counts[rank] elements, out
their sum.
Without out: returns a list with one new array for each rank. Otherwise as all_reduce.)";

inline constexpr const char* kGather = R"(Give `root` x of all ranks, in rank order.

As all_gather at the root; other ranks get nothing, and their `out` is not looked at. Parts differ in size only
where counts say so.
Without out: returns a list with one new array for each rank at the root, None elsewhere.)";

inline constexpr const char* kScatter = R"(Give each rank its part of what x holds at `root`.

x: size * c elements at the root, or a list of arrays, one for each rank; not looked at elsewhere (give None).
out: c elements on every rank.
counts: one for each rank, equal on all ranks, when parts differ in size: x has their sum, out counts[rank]
elements. Otherwise as all_reduce.)";

inline constexpr const char* kReduceScatter =
    R"(Combine x of all ranks element by element; each rank gets its part of the result.

x: size * c elements on every rank, or a list of arrays, one for each rank, whose sizes may differ. out: c
elements, the result's [rank * c, (rank + 1) * c). out may be that part of x.
counts: one for each rank, equal on all ranks, when parts differ in size: x has their sum, out counts[rank]
elements.
Without out: returns a new array: x's shape with the first dimension divided by size (with counts: counts[rank]
elements). Otherwise as all_reduce.)";

inline constexpr const char* kAllGatherVarying =
    R"(Every rank's x on every rank, as a list by rank, where no rank knows how long the others' are.

x: any first dimension, 0 included; all others, and the type, are equal on all ranks. Returns new arrays. Two
collectives: the lengths, then the data. Raises InvalidArgument on all ranks where rows differ in size, and
otherwise what all_gather does.)";

inline constexpr const char* kAllToAll = R"(Send each rank its part of x, and get a part from each.

x: size * c elements, of which [j * c, (j + 1) * c) goes to rank j; out: as many, [j * c, (j + 1) * c) comes
from rank j. When parts differ in size: counts[j] elements of x go to rank j, output_counts[j] of out come from
rank j. Or both are lists of arrays, one for each rank, of any sizes.
Without out: returns a new array of x's shape (with counts: one dimension). Otherwise as all_reduce.)";

inline constexpr const char* kBarrier = R"(Wait until every rank has called it.

With async_op=True returns a Work at once, which is done when every rank has called it.)";

inline constexpr const char* kSend = R"(Send the bytes of x to rank `dst`; blocks until x may be used again.

Messages between two ranks with one tag do not overtake each other. x may have any element type. Raises
InvalidArgument (dst is no rank, or this rank, which has posted no receive for it), RankFailure, Timeout,
Aborted. To NULL_RANK nothing is sent.)";

inline constexpr const char* kRecv =
    R"(Receive a message into x from rank `src`, or from any with ANY_RANK, the default.

Blocks until it is there. x may be longer than the message: what lies behind it is left alone. Returns who
sent, with which tag, how many bytes. With tag ANY_TAG: a message with any tag. From NULL_RANK: at once, and
nothing. Raises InvalidArgument (src is no rank, or this rank, which has sent itself nothing; the message is
longer than x), RankFailure, Timeout, Aborted. An exception from a signal handler (Ctrl-C) leaves the group
usable where nothing had come; its note (Python 3.11) says whether that is so.)";

inline constexpr const char* kISend =
    "As send, but returns a Work at once; x must not be changed before it is done. May be to this rank itself.";
inline constexpr const char* kIRecv =
    "As recv, but returns a Work at once; Work.received() says who sent. x must be contiguous.";

inline constexpr const char* kSendRecv =
    R"(Send x to rank `dst` and receive from rank `src` into out, both at once: a ring of ranks that all do so goes on.

dst and src may be one rank, this one, or NULL_RANK; src may be ANY_RANK, recv_tag ANY_TAG. x and out must not
overlap. Blocks until both are done. Returns what recv does, and raises what send and recv do.)";
inline constexpr const char* kSendRecvReplace =
    "As sendrecv with one array: what was in x is sent, from a copy, and what comes is in x afterwards.";
inline constexpr const char* kProbe =
    R"(What the next recv with the same src and tag would get: who sent, with which tag, how many bytes.

The message stays where it is. Blocks until there is one. So a message of unknown length is received:
    found = world.probe(tag=3)
    x = numpy.empty(found.bytes // 8)
    world.recv(x, found.source, found.tag)
Where several threads receive, another one may take it first. Raises what recv does.)";
inline constexpr const char* kIProbe = "As probe, but None when no message is there now. Never blocks.";

inline constexpr const char* kSubgroup =
    R"(The group of `ranks` (of this group, in that order: ranks[i] is rank i there).

Called by its members only, all with the same list; the others do nothing. Blocks until all members are there.
Raises InvalidArgument when a rank is out of range or listed twice, or this rank is not a member, RankFailure
as soon as a member has died or left, the error of this group as soon as it has failed, and Timeout naming who
is missing.)";

inline constexpr const char* kSplit =
    R"(Every rank calls it; those with one colour form a group, ordered by (key, rank).

Returns this rank's new group, or None for a negative colour. Blocks until all ranks have called it.)";

inline constexpr const char* kSplitByHost =
    R"(The ranks that can share memory (those of one host, as a rule), ordered by (key, rank).

Every rank calls it. As MPI's split_type with COMM_TYPE_SHARED.)";

inline constexpr const char* kDup =
    "The same ranks once more, in a group of its own: its calls and messages do not meet those of this one. Every\n"
    "rank calls it.";

inline constexpr const char* kAbort =
    R"(End every operation in flight, here and on the other ranks, with Aborted, and every later call as well.

`reason` is part of the message that they all see. Never blocks for long.)";

inline constexpr const char* kDestroy =
    R"(Finish what is in flight and leave. Later calls raise InvalidArgument. A second destroy does nothing.
Ranks that still need this one in the group get RankFailure at once. What was sent before arrives.

The world destroys itself when the interpreter ends, or aborts when it ends with an exception.)";

inline constexpr const char* kEmpty = R"(Return a new NumPy array in memory that the other ranks on this host can reach.

As numpy.empty: its contents are not defined. Collectives whose arrays, or views of them, are such memory on
all ranks copy nothing on the way: on large arrays they are about twice as fast as on others. Where ranks do
not share memory it is an ordinary array. The memory lives as long as anything refers to it, the group or not.
Children of fork() have a copy of their own, as of what is registered.

shape: an integer or a sequence of them. dtype: anything that numpy.dtype takes, without Python objects.
Not a collective: any rank at any time. Raises SystemError when there is no more memory.)";

inline constexpr const char* kShares =
    R"(Whether the other ranks on this host reach an array's memory now, so that collectives on it copy nothing.

It is so of arrays from empty(), of registered ones, and of those that large operations came back to: their
pages are exchanged for shared ones where they are (docs/design/0012; UNISONO_SHARE_MEMORY=0 refuses).

array: any contiguous one with the buffer protocol or DLPack. Any thread; does not block.)";

inline constexpr const char* kRegister =
    R"(Let the other ranks on this host reach an array's own memory; returns a Registration.

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
already), SystemError when there is no more shared memory.)";

inline constexpr const char* kBroadcastObject = R"(Give every rank the object that `root` has; returns it.

Objects are None, bool, int, float, complex, str, bytes, list, tuple, dict, NumPy arrays and scalars, torch CPU
tensors. Others need pickle=True on all ranks: unpickling runs what the sender chose. UNISONO_PICKLE=0
forbids it.
Blocks until it is there. Raises InvalidArgument on all ranks for an object that cannot be sent; otherwise as
all_reduce.)";

inline constexpr const char* kAllGatherObject = R"(Give every rank the objects of all ranks: a list, in rank order.

As broadcast_object.)";

inline constexpr const char* kGatherObject =
    R"(Give `root` the objects of all ranks: a list, in rank order; None elsewhere.

As broadcast_object.)";

inline constexpr const char* kScatterObject = R"(Give rank i the i-th of the objects that `root` has; returns it.

objects: a list with one for each rank, looked at on the root only. As broadcast_object.)";

inline constexpr const char* kSendObject = R"(Send an object to rank `dst`; blocks until it is on its way.

As broadcast_object, but what cannot be sent is refused here, and nothing is sent.)";

inline constexpr const char* kRecvObject =
    R"(Receive an object that send_object sent; returns it and the rank that sent it.

src: ANY_RANK, the default, or a rank. One thread at a time may receive objects with one tag. As
broadcast_object.)";

}  // namespace unisono::python::docs

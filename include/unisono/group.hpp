#pragma once
/// Groups of ranks and what they do together.
///
/// A Group is a handle: copies refer to the same group. Thread-safety: a group may be used from any thread; all ranks must
/// call its collectives in the same order. Every blocking call ends: with success, or with an exception that names the
/// rank. A blocking call makes progress in the caller's thread; asynchronous calls are carried by one thread a process.
///
/// Group, Context and Work belong to the process that made them. In a forked child their calls throw InvalidArgument, but for those
/// that only look (rank(), size(), name(), ...), and destroy() and the destructors do nothing there: the parent's group goes on. A
/// child can make a Context and groups of its own.

#include <array>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/buffer.hpp"
#include "unisono/config.hpp"
#include "unisono/elements.hpp"
#include "unisono/error.hpp"
#include "unisono/export.hpp"
#include "unisono/registration.hpp"
#include "unisono/store.hpp"
#include "unisono/types.hpp"
#include "unisono/work.hpp"

namespace unisono {

namespace detail {
class ContextImpl;
class GroupImpl;
class Lingering;
}  // namespace detail

/// From any rank: for recv and probe.
inline constexpr int kAnyRank = -1;
/// Nobody: what is sent to it is not sent, what is received from it is empty, both at once. At the
/// edge of a grid, say (MPI_PROC_NULL).
inline constexpr int kNullRank = -2;
/// With any tag: for recv and probe. Tags that are sent are at least kLeastTag.
inline constexpr std::int64_t kAnyTag = INT64_MIN;
inline constexpr std::int64_t kLeastTag = INT64_MIN + 65536;

/// Per-call choices; the group's defaults where empty.
struct Options {
  std::string_view algorithm{};  ///< by name, instead of the group's table; must be the same on all ranks
  std::optional<Duration> timeout{};
  /// Asked about ten times a second by the thread that waits in a blocking call.
  /// True ends the wait: the call throws Aborted, and the group is aborted. A recv to which nothing
  /// has come leaves the group as it was. How a language binding lets Ctrl-C through. It must not
  /// use the library.
  bool (*interrupted)() noexcept = nullptr;
};

/// One call, untyped: what the typed members below, Python and the PyTorch back end all come down to.
///
///   collective      input                      output                      count
///   all_reduce      count                      count                       elements of the buffer
///   reduce          count                      count, at root              elements of the buffer
///   broadcast       count, at root             count                       elements of the buffer
///   all_gather      count                      n * count                   elements that one rank contributes
///   gather          count                      n * count, at root          the same
///   reduce_scatter  n * count                  count                       elements that one rank receives
///   scatter         n * count, at root         count                       the same
///   all_to_all      n * count                  n * count                   elements for each rank
///   barrier         -                          -                           -
/// With `counts` (n entries, equal on all ranks) rank i's part has counts[i] elements instead of count (all_gather, gather,
/// reduce_scatter, scatter). all_to_all: counts[j] elements go to rank j, output_counts[j] come from rank j.
/// In place: input == output, and for the n-block collectives input is the own block of output, or output the own block
/// of input. all_gather and gather take an input that lies elsewhere in output, too: it goes to the
/// own block first. Any other overlap is refused. An input of an out-of-place call is never
/// written.
struct Call {
  Collective collective = Collective::barrier;
  const void* input = nullptr;
  void* output = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::u8;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  std::span<const std::int64_t> counts{};
  std::span<const std::int64_t> output_counts{};
  Options options{};
};

class UNISONO_API Group {
 public:
  Group() = default;  ///< empty: every call throws

  int rank() const;
  int size() const;
  const std::string& name() const;
  /// "shm", "tcp", "mixed", "inproc": how the members reach each other.
  std::string_view transport() const;
  /// The selection table in force, as text (docs: UNISONO_ALGORITHM).
  std::string algorithms() const;
  /// What figures measured on this group are true of, as text for people: version, transport, which rank is on which host, the hosts'
  /// processors and cores. The same on all ranks; empty for a group of one, and for groups within a group.
  std::string topology() const;
  /// Collectives started so far.
  std::uint64_t sequence_number() const;
  /// What ran in the last collective that this rank began: an algorithm's name, or "inline" when so few bytes travelled
  /// with its announcement. Empty before the first one, while it is under way, and when it failed.
  std::string_view last_algorithm() const;

  // --- memory -----------------------------------------------------------------------------------------------------
  /// Memory that the other ranks on this host can reach: collectives on it copy nothing (buffer.hpp). Throws SystemError when
  /// there is no more. Not a collective: any rank at any time.
  Buffer allocate(std::size_t bytes) const;
  /// The same for memory of the program's own, as long as the Registration lives (registration.hpp has the rules). Ordinary private memory
  /// of any size and alignment; throws InvalidArgument for other kinds (shared, of a file, read-only, locked, on the stack) and for what is
  /// registered already, SystemError when there is no more shared memory, or less memory is free than all ranks of this host would take together. Not a collective: any rank at any time; blocks for about six
  /// copies of it.
  [[nodiscard]] Registration register_buffer(void* data, std::size_t bytes) const;
  template <class T>
  [[nodiscard]] Registration register_buffer(std::span<T> data) const {
    return register_buffer(data.data(), data.size_bytes());
  }
  /// Whether the other ranks on this host reach it now, so that collectives on it copy nothing: from allocate(), registered, or shared by itself
  /// because large collectives or messages came back to it (Config::share_memory).
  bool shares(const void* data, std::size_t bytes) const;

  // --- everything, untyped -------------------------------------------------------------------------------------
  void run(const Call& call) const;                  ///< blocks
  [[nodiscard]] Work start(const Call& call) const;  ///< returns at once

  // --- point to point. Messages between two ranks with one tag do not overtake each other.
  // A rank may send to itself what it receives itself: isend copies at once. A blocking send to
  // oneself is refused unless a receive for it was posted, and a blocking recv from oneself unless
  // the message is there.
  void send(std::span<const std::byte> data, int dst, std::int64_t tag = 0, Options o = {}) const;
  Received recv(std::span<std::byte> data, int src = kAnyRank, std::int64_t tag = 0, Options o = {}) const;
  [[nodiscard]] Work isend(std::span<const std::byte> data, int dst, std::int64_t tag = 0, Options o = {}) const;
  [[nodiscard]] Work irecv(std::span<std::byte> data, int src = kAnyRank, std::int64_t tag = 0, Options o = {}) const;
  /// Send to `dst` and receive from `src`, at once, so that a ring of ranks that all do so does not
  /// stand still. The two may be one rank, and this one. `out` and `in` must not overlap.
  Received sendrecv(std::span<const std::byte> out, int dst, std::span<std::byte> in, int src,
                    std::int64_t send_tag = 0, std::int64_t recv_tag = 0, Options o = {}) const;
  /// The same with one buffer: what was in `data` is sent, from a copy, and what comes is in it.
  Received sendrecv_replace(std::span<std::byte> data, int dst, int src, std::int64_t send_tag = 0,
                            std::int64_t recv_tag = 0, Options o = {}) const;
  /// What the next recv with the same `src` and `tag` would get; it stays where it is. Blocks until
  /// there is a message. So a message whose length nobody knows is received into memory made for it.
  /// Where several threads receive, another one may take it first.
  Received probe(int src = kAnyRank, std::int64_t tag = 0, Options o = {}) const;
  /// The same, if it is there now; never blocks.
  std::optional<Received> iprobe(int src = kAnyRank, std::int64_t tag = 0) const;

  // --- groups within the group ------------------------------------------------------------------------------------
  /// The group of `ranks` (of this group, in that order). Called by its members only; the others do nothing. Blocks until all of them are there; throws RankFailure as soon as
  /// one has died or left, this group's error as soon as it has failed, and Timeout naming who is missing.
  Group subgroup(std::span<const int> ranks, Options o = {}) const;
  /// Every rank calls it; those with one colour form a group, ordered by (key, rank). A negative
  /// colour joins none (an empty Group).
  Group split(std::int64_t colour, std::int64_t key = 0, Options o = {}) const;

  /// The ranks that can share memory (those of one host, as a rule), ordered by (key, rank), as
  /// MPI_COMM_TYPE_SHARED has it. Every rank calls it.
  Group split_by_host(std::int64_t key = 0, Options o = {}) const;
  /// The same ranks once more, whose calls do not meet those of this group. Every rank calls it.
  Group dup(Options o = {}) const;

  /// Every operation in flight, here and on the other ranks, ends with Aborted; so does every later call.
  void abort(const std::string& reason) const;
  /// Finish what is in flight and leave. Later calls throw InvalidArgument ("used after destroy").
  /// Ranks that still need this one in the group get RankFailure at once. What was sent arrives.
  /// Called by the last handle's destructor otherwise. Where `interrupted`, asked as
  /// Options::interrupted is, says true, what is in flight is aborted on all ranks. In
  /// `interrupted` of a call on this group it aborts the call, and the last handle leaves: false is
  /// returned.
  bool destroy(bool (*interrupted)() noexcept = nullptr);
  explicit operator bool() const noexcept { return impl_ != nullptr; }
  /// False in a forked child of the process in which the group was made: it can only be looked at there.
  bool made_here() const noexcept;

  // --- typed --------------------------------------------------------------------------------------------------------
  // Each takes spans, and in the overload behind it whatever is contiguous: std::vector,
  // std::array, std::string, arrays. Reductions take the types of dtype_of(); what only moves takes
  // any trivially copyable type (structs, enums, pairs). What has no DType travels as bytes: ranks
  // that move two such types of one size get no Mismatch.
  template <class T>
  void all_reduce(std::span<T> data, ReduceOp op = ReduceOp::sum, Options o = {}) const {
    run(reduction(Collective::all_reduce, detail::input_of(data), detail::output_of(data), data.size(), op, 0, o));
  }
  template <detail::Range X>
  void all_reduce(X&& x, ReduceOp op = ReduceOp::sum, Options o = {}) const {
    all_reduce(detail::output_of(std::forward<X>(x)), op, o);
  }
  template <class T>
  void all_reduce(std::span<const T> in, std::span<T> out, ReduceOp op = ReduceOp::sum, Options o = {}) const {
    same_size(in.size(), out.size(), "all_reduce: input and output");
    run(reduction(Collective::all_reduce, in, out, in.size(), op, 0, o));
  }
  template <detail::Range In, detail::Range Out>
  void all_reduce(const In& in, Out&& out, ReduceOp op = ReduceOp::sum, Options o = {}) const {
    detail::require_same_elements<const In, Out>();
    all_reduce(detail::input_of(in), detail::output_of(std::forward<Out>(out)), op, o);
  }
  template <class T>
  [[nodiscard]] Work all_reduce_async(std::span<T> data, ReduceOp op = ReduceOp::sum, Options o = {}) const {
    return start(
        reduction(Collective::all_reduce, detail::input_of(data), detail::output_of(data), data.size(), op, 0, o));
  }
  template <detail::Range X>
  [[nodiscard]] Work all_reduce_async(X&& x, ReduceOp op = ReduceOp::sum, Options o = {}) const {
    return all_reduce_async(detail::output_of(std::forward<X>(x)), op, o);
  }
  template <class T>
  void broadcast(std::span<T> data, int root = 0, Options o = {}) const {
    run(movement(Collective::broadcast, detail::input_of(data), detail::output_of(data), data.size(), root, o));
  }
  template <detail::Range X>
  void broadcast(X&& x, int root = 0, Options o = {}) const {
    broadcast(detail::output_of(std::forward<X>(x)), root, o);
  }
  template <class T>
  [[nodiscard]] Work broadcast_async(std::span<T> data, int root = 0, Options o = {}) const {
    return start(
        movement(Collective::broadcast, detail::input_of(data), detail::output_of(data), data.size(), root, o));
  }
  template <detail::Range X>
  [[nodiscard]] Work broadcast_async(X&& x, int root = 0, Options o = {}) const {
    return broadcast_async(detail::output_of(std::forward<X>(x)), root, o);
  }
  /// `out` is used at the root only; elsewhere it may be empty. In place at the root: in and out are one span.
  template <class T>
  void reduce(std::span<const T> in, std::span<T> out, int root = 0, ReduceOp op = ReduceOp::sum,
              Options o = {}) const {
    if (rank() == root) same_size(in.size(), out.size(), "reduce: input and output at the root");
    run(reduction(Collective::reduce, in, out, in.size(), op, root, o));
  }
  template <detail::Range In, detail::Range Out>
  void reduce(const In& in, Out&& out, int root = 0, ReduceOp op = ReduceOp::sum, Options o = {}) const {
    detail::require_same_elements<const In, Out>();
    reduce(detail::input_of(in), detail::output_of(std::forward<Out>(out)), root, op, o);
  }
  template <class T>
  void all_gather(std::span<const T> in, std::span<T> out, Options o = {}) const {
    same_size(in.size() * static_cast<std::size_t>(size()), out.size(), "all_gather: size() * input and output");
    run(movement(Collective::all_gather, in, out, in.size(), 0, o));
  }
  template <detail::Range In, detail::Range Out>
  void all_gather(const In& in, Out&& out, Options o = {}) const {
    detail::require_same_elements<const In, Out>();
    all_gather(detail::input_of(in), detail::output_of(std::forward<Out>(out)), o);
  }
  /// Every rank's `x` on every rank, where no rank knows how long the others' are. Two collectives:
  /// the lengths, then the data.
  template <detail::Range X>
  auto all_gather_varying(const X& x, Options o = {}) const {
    const auto in = detail::input_of(x);
    using T = detail::ElementOf<const X>;
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(size()));
    all_gather(std::array{static_cast<std::int64_t>(in.size())}, lengths, o);
    std::vector<T> all(static_cast<std::size_t>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})));
    std::vector<std::int64_t> counts = lengths;
    for (std::int64_t& count : counts) count *= static_cast<std::int64_t>(detail::moved_as<T>().times);
    Call call = movement(Collective::all_gather, in, std::span(all), in.size(), 0, o);
    call.counts = counts;
    run(call);
    std::vector<std::vector<T>> parts;
    for (auto at = all.begin(); const std::int64_t length : lengths) {
      parts.emplace_back(at, at + length);
      at += length;
    }
    return parts;
  }
  template <class T>
  void gather(std::span<const T> in, std::span<T> out, int root = 0, Options o = {}) const {
    if (rank() == root)
      same_size(in.size() * static_cast<std::size_t>(size()), out.size(), "gather: size() * input and output");
    run(movement(Collective::gather, in, out, in.size(), root, o));
  }
  template <detail::Range In, detail::Range Out>
  void gather(const In& in, Out&& out, int root = 0, Options o = {}) const {
    detail::require_same_elements<const In, Out>();
    gather(detail::input_of(in), detail::output_of(std::forward<Out>(out)), root, o);
  }
  template <class T>
  void scatter(std::span<const T> in, std::span<T> out, int root = 0, Options o = {}) const {
    if (rank() == root)
      same_size(out.size() * static_cast<std::size_t>(size()), in.size(), "scatter: size() * output and input");
    run(movement(Collective::scatter, in, out, out.size(), root, o));
  }
  template <detail::Range In, detail::Range Out>
  void scatter(const In& in, Out&& out, int root = 0, Options o = {}) const {
    detail::require_same_elements<const In, Out>();
    scatter(detail::input_of(in), detail::output_of(std::forward<Out>(out)), root, o);
  }
  template <class T>
  void reduce_scatter(std::span<const T> in, std::span<T> out, ReduceOp op = ReduceOp::sum, Options o = {}) const {
    same_size(out.size() * static_cast<std::size_t>(size()), in.size(), "reduce_scatter: size() * output and input");
    run(reduction(Collective::reduce_scatter, in, out, out.size(), op, 0, o));
  }
  template <detail::Range In, detail::Range Out>
  void reduce_scatter(const In& in, Out&& out, ReduceOp op = ReduceOp::sum, Options o = {}) const {
    detail::require_same_elements<const In, Out>();
    reduce_scatter(detail::input_of(in), detail::output_of(std::forward<Out>(out)), op, o);
  }
  template <class T>
  void all_to_all(std::span<const T> in, std::span<T> out, Options o = {}) const {
    same_size(in.size(), out.size(), "all_to_all: input and output");
    same_size(in.size() % static_cast<std::size_t>(size()), 0, "all_to_all: remainder of input by size()");
    run(movement(Collective::all_to_all, in, out, in.size() / static_cast<std::size_t>(size()), 0, o));
  }
  template <detail::Range In, detail::Range Out>
  void all_to_all(const In& in, Out&& out, Options o = {}) const {
    detail::require_same_elements<const In, Out>();
    all_to_all(detail::input_of(in), detail::output_of(std::forward<Out>(out)), o);
  }
  void barrier(Options o = {}) const {
    Call c;
    c.options = o;
    run(c);
  }
  template <detail::Range X>
  void send(const X& x, int dst, std::int64_t tag = 0, Options o = {}) const {
    send(movable_bytes(detail::input_of(x)), dst, tag, o);
  }
  template <detail::Range X>
  Received recv(X&& x, int src = kAnyRank, std::int64_t tag = 0, Options o = {}) const {
    return recv(movable_bytes(detail::output_of(std::forward<X>(x))), src, tag, o);
  }
  template <detail::Range X>
  [[nodiscard]] Work isend(X&& x, int dst, std::int64_t tag = 0, Options o = {}) const {
    detail::require_outliving<X>();
    return isend(movable_bytes(detail::input_of(x)), dst, tag, o);
  }
  template <detail::Range X>
  [[nodiscard]] Work irecv(X&& x, int src = kAnyRank, std::int64_t tag = 0, Options o = {}) const {
    return irecv(movable_bytes(detail::output_of(std::forward<X>(x))), src, tag, o);
  }
  template <detail::Range Out, detail::Range In>
  Received sendrecv(const Out& out, int dst, In&& in, int src, std::int64_t send_tag = 0, std::int64_t recv_tag = 0,
                    Options o = {}) const {
    return sendrecv(movable_bytes(detail::input_of(out)), dst, movable_bytes(detail::output_of(std::forward<In>(in))),
                    src, send_tag, recv_tag, o);
  }
  template <detail::Range X>
  Received sendrecv_replace(X&& x, int dst, int src, std::int64_t send_tag = 0, std::int64_t recv_tag = 0,
                            Options o = {}) const {
    return sendrecv_replace(movable_bytes(detail::output_of(std::forward<X>(x))), dst, src, send_tag, recv_tag, o);
  }
  // For calls that name the element type: send<int>(vector, 1).
  template <class T>
  void send(std::span<T> data, int dst, std::int64_t tag = 0, Options o = {}) const
    requires(!std::same_as<std::remove_const_t<T>, std::byte>)
  {
    send(movable_bytes(std::span<const T>(data)), dst, tag, o);
  }
  template <class T>
  Received recv(std::span<T> data, int src = kAnyRank, std::int64_t tag = 0, Options o = {}) const
    requires(!std::same_as<T, std::byte>)
  {
    return recv(movable_bytes(data), src, tag, o);
  }

 private:
  friend class Context;
  friend UNISONO_API void spawn_threads(int size, const std::function<void(Group)>& body, const Config& config);
  explicit Group(std::shared_ptr<detail::GroupImpl> impl);
  static void same_size(std::size_t a, std::size_t b, const char* what);  ///< throws InvalidArgument
  template <class T>
  static Call reduction(Collective c, std::span<const T> in, std::span<T> out, std::size_t count, ReduceOp op, int root,
                        Options o) {
    Call call;
    call.collective = c;
    call.input = in.data();
    call.output = out.data();
    call.count = static_cast<std::int64_t>(count);
    call.dtype = dtype_of<T>();
    call.op = op;
    call.root = root;
    call.options = o;
    return call;
  }
  template <class T>
  static Call movement(Collective c, std::span<const T> in, std::span<T> out, std::size_t count, int root, Options o) {
    constexpr detail::Moved moved = detail::moved_as<T>();
    Call call;
    call.collective = c;
    call.input = in.data();
    call.output = out.data();
    call.count = static_cast<std::int64_t>(count * moved.times);
    call.dtype = moved.dtype;
    call.root = root;
    call.options = o;
    return call;
  }
  template <class T>
  static auto movable_bytes(std::span<T> data) {
    detail::require_movable<std::remove_const_t<T>>();
    if constexpr (std::is_const_v<T>)
      return std::as_bytes(data);
    else
      return std::as_writable_bytes(data);
  }
  std::shared_ptr<detail::GroupImpl> impl_;
};

/// What the groups of one process share: transports, the progress thread, shared memory. Usually made by init(); ranks
/// that are threads have one each. Thread-safety: any thread.
class UNISONO_API Context {
 public:
  explicit Context(Config config = Config::from_env());
  /// Join a group of `size` ranks through `store`; all ranks call it with the same name. Blocks until all are there or
  /// the configuration's timeout passes, when it throws Timeout naming the ranks that are missing.
  Group create_group(std::shared_ptr<Store> store, int rank, int size, const std::string& name = "world") const;
  /// As Group::allocate; for all groups of this context.
  Buffer allocate(std::size_t bytes) const;
  /// As Group::register_buffer; for all groups of this context.
  [[nodiscard]] Registration register_buffer(void* data, std::size_t bytes) const;
  const Config& config() const;
  /// As Group::made_here.
  bool made_here() const noexcept;
  /// Whether this process's threads may run on one NUMA node only, or the host has no more: otherwise its memory may lie on several, and what it
  /// registers comes to lie on one.
  bool on_one_node() const;

 private:
  std::shared_ptr<detail::ContextImpl> impl_;
};

/// Join the world that the environment describes (unisono run, torchrun, Slurm, Open MPI, MPICH; see Config), or a world of
/// one when there is none.
///
/// When a rank dies or fails meanwhile, all others throw RankFailure that names it. Where rank 0
/// serves the store, its call returns when all others know, or have had 3 s to come.
UNISONO_API Group init(Config config = Config::from_env());

/// The ranks that come to a world after rank 0, which serves the store, has found that it cannot be
/// joined: they are still told why, for at most 3 s. Thread-safety: any thread.
class UNISONO_API Latecomers {
 public:
  Latecomers();
  /// Blocks as wait() does.
  ~Latecomers();
  Latecomers(const Latecomers&) = delete;
  Latecomers& operator=(const Latecomers&) = delete;
  /// Block until all have been told, or the time is over. Nothing in a forked child.
  void wait();

 private:
  friend UNISONO_API Group init(Config config, Latecomers& latecomers);
  std::unique_ptr<detail::Lingering> impl_;
};

/// The same; but rank 0's call throws at once, and `latecomers` sees to the others.
UNISONO_API Group init(Config config, Latecomers& latecomers);

/// Ranks as threads of this process: calls `body` with a world of `size` on as many threads, over shared memory's own code.
/// Rethrows the first exception. For tests, studies and notebooks.
UNISONO_API void spawn_threads(int size, const std::function<void(Group)>& body, const Config& config = {});

}  // namespace unisono

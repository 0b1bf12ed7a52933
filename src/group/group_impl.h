#pragma once
/// A group: who is in it, how its operations are chosen, queued and run.

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "engine/domain.h"
#include "engine/inline_operation.h"
#include "engine/operation.h"
#include "group/buffer_checks.h"
#include "group/contest.h"
#include "group/context_impl.h"
#include "group/exchange.h"
#include "group/first_runs.h"
#include "group/round_trial.h"
#include "plan/select.h"
#include "unisono/group.hpp"

namespace unisono::detail {

/// 0 where a call's root means nothing.
inline int root_of(const Call& call) noexcept { return rooted(call.collective) ? call.root : 0; }

/// A member, for messages and for making subgroups.
struct Member {
  int peer = -1;  ///< the messenger's number; -1: this process
  std::string host;
  std::int64_t pid = 0;
  bool shares_memory = false;  ///< with this process
  int machine = 0;             ///< the same number: they share memory with each other
  int node = -1;               ///< the NUMA node that it is on, as its host numbers them; -1: one node, or nobody knows
  std::string algorithms;      ///< its UNISONO_ALGORITHM
};

struct CollectiveAhead;

/// What a group is made of (join.cc, subgroup.cc).
struct Parts {
  std::shared_ptr<ContextImpl> context;
  std::shared_ptr<Store> store;
  std::string name;
  std::uint64_t id = 0;
  int rank = 0;
  std::vector<Member> members;
  std::unique_ptr<engine::Domain> domain;
  std::shared_ptr<engine::Failure> failure;
  plan::Selector selector;
  std::string tuned;                         ///< rules that were measured, appended to the built-in selection table
  std::string overrides;                     ///< appended behind them
  std::string topology;                      ///< what measured rules are true of
  std::vector<std::int32_t> hosts;           ///< by rank, as plan::Shape has it; from the members' machines
  bool peer_memory = false;                  ///< all ranks can read each other's memory
  bool several_hosts = false;                ///< and some of them have several ranks
  std::vector<std::int32_t> nodes;           ///< likewise, of one host's NUMA nodes; empty where a rank's is not known
  bool several_nodes = false;                ///< and some of them have several ranks, and algorithms may look at that
  bool deterministic = false;                ///< rank 0's word: no bit may depend on who is where
  engine::Mates mates;                       ///< none, but in a group of one host whose ranks all have seats
  std::optional<group::StoreServer> server;  ///< of `store`, if another rank serves it: in this group's numbering
  std::string transport;                     ///< for people: shm, tcp, mixed, inproc, self
};

/// What a caller waits for. Put into words only when something is wrong with it: that takes longer than a short message does.
struct Awaited {
  std::string_view verb;  ///< "all_reduce", "send", "recv"
  bool message = false;   ///< then what follows is meant
  int peer = -1;
  std::int64_t tag = 0;
  std::size_t bytes = 0;
  /// The caller waits as long as the group does: it gives up no sooner by itself.
  bool lasts = true;
  bool in_work = false;  ///< it may stop waiting, and the operation goes on
};

/// Calls in which two plans compete (rival.cc), or the judge alone opens its buffers, of one kind.
struct Rivalry {
  engine::Judged next;                      ///< the next of them
  TimePoint ended{};                        ///< the last one, at the judge where ranks take turns on the cores
  std::array<group::Contest, 2> contests;   ///< at their judge: out of place, in place
  std::array<group::RoundTrial, 2> helped;  ///< likewise: whether it is helped with what it gets
};

/// What calls of the same kind have in common, found out by the first of them (known.cc).
struct Known {
  std::shared_ptr<const engine::Prepared> prepared;
  std::vector<std::int64_t> counts, output_counts;  ///< of which the signature has no more than a hash
  const plan::Algorithm* algorithm = nullptr;  ///< of Prepared::usual; the others likewise, null where there is none
  const plan::Algorithm *shared = nullptr, *preferred = nullptr, *rival = nullptr;
  Rivalry* rivalry = nullptr;  ///< where there is a judge
  std::int64_t got = 0;  ///< bytes of the one block that this rank would get through the kernel (engine::got_block)
  bool is(const engine::Signature& signature, const Call& call) const noexcept;
};

/// An operation that waits for its turn, or is running.
struct Pending {
  Call call;
  std::vector<std::int64_t> counts, output_counts;  ///< the call's spans point here, unless its caller waits for it
  const plan::Algorithm* requested = nullptr;
  const plan::Algorithm* algorithm = nullptr;
  std::shared_ptr<engine::Completion> completion;
  TimePoint started{}, deadline = TimePoint::max();
  std::uint64_t sequence = 0;
  const Known* known = nullptr;
  engine::Running* operation = nullptr;           ///< once it runs: the group's, or `tiny`
  std::unique_ptr<engine::InlineOperation> tiny;  ///< if that is what it is
  group::Contest* contest = nullptr;              ///< who times it
  TimePoint timed_from{};                         ///< then: see advance_operation
  TimePoint patience =
      TimePoint::max();  ///< after a failure: until when to wait for peers to take their hands off our buffers
  TimePoint probe_at = TimePoint::max();  ///< when to tell the others what we wait in
};

/// This thread is known by `mark` while it lives.
class MarkedThread {
 public:
  explicit MarkedThread(std::atomic<std::thread::id>& mark) noexcept : mark_(mark) {
    mark_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }
  ~MarkedThread() { mark_.store({}, std::memory_order_relaxed); }
  MarkedThread(const MarkedThread&) = delete;
  MarkedThread& operator=(const MarkedThread&) = delete;

 private:
  std::atomic<std::thread::id>& mark_;
};

/// Thread-safety: any thread.
class GroupImpl final : public group::Driven, public engine::Calls, public std::enable_shared_from_this<GroupImpl> {
 public:
  /// The last reference leaves the group; in a forked child it leaves it alone.
  static std::shared_ptr<GroupImpl> create(Parts parts);
  explicit GroupImpl(Parts parts);
  ~GroupImpl() override;

  /// Choose by these measured rules from now on. Before the first operation; the same on all ranks. Throws when they are not a table.
  void adopt(const std::string& tuned);
  /// False in a forked child of the process in which it was made: there every call throws.
  bool made_here() const noexcept { return parts_.context->process.here(); }
  /// Throws unless made_here().
  void check_process() const {
    if (!made_here()) refuse_process();
  }
  void run(const Call& call);
  std::shared_ptr<engine::Completion> start(const Call& call);
  /// Empty when all of it was sent at once. `counted`: where it counts until it is complete.
  std::shared_ptr<engine::Completion> send(std::span<const std::byte> data, int dst, std::int64_t tag, Duration timeout,
                                           const std::shared_ptr<engine::UnderWay>& counted = nullptr);
  std::shared_ptr<engine::Completion> receive(std::span<std::byte> data, int src, std::int64_t tag, Duration timeout,
                                              const std::shared_ptr<engine::UnderWay>& counted = nullptr);
  /// As Group::iprobe and Group::probe.
  std::optional<engine::Arrival> iprobe(int src, std::int64_t tag);
  engine::Arrival probe(int src, std::int64_t tag, const Options& options);
  /// Of a blocking call with this rank itself: throws unless the other side of it is there.
  void refuse_own_message(bool sends, std::int64_t tag);
  bool is_own_message(int src) const noexcept { return src == rank() || (src == kAnyRank && size() == 1); }
  /// Whether a receive is soon over once its message is there: a short one through memory.
  bool is_soon_over(std::size_t bytes, int src) const;
  /// A short message from a peer of this host that is there, or comes within a few looks: in front of receive(), which takes whatever is not so simple.
  std::optional<engine::Arrival> receive_now(std::span<std::byte> data, int src, std::int64_t tag);
  /// Wait for an operation of this group in this thread (empty: it has ended well); throws its error. Past the timeout: `cancel` for blocking calls.
  void wait(const std::shared_ptr<engine::Completion>& completion, Duration timeout, const Awaited& what, bool cancel,
            group::Progress::Interrupted interrupted = nullptr);
  /// As Work::cancel.
  bool withdraw(const std::shared_ptr<engine::Completion>& completion, const Awaited& what) const;
  /// What the message ended with, in words that say which one it was.
  Status named(const Status& status, const Awaited& what, TimePoint started = {}) const;
  std::shared_ptr<GroupImpl> subgroup(std::span<const int> ranks, Duration timeout);
  void abort(const std::string& reason);
  /// Waits for what is in flight, at most `patience`; what then is left is aborted, here and elsewhere.
  bool destroy(Duration patience, group::Progress::Interrupted interrupted = nullptr);
  bool advance() override;
  std::uint64_t called() const noexcept override { return sequence() + static_cast<std::uint64_t>(queued_.load()); }
  /// Whether a call with these waits no less long than others do.
  bool lasts(const Options& options) const;

  int rank() const noexcept { return parts_.rank; }
  int size() const noexcept { return static_cast<int>(parts_.members.size()); }
  std::uint64_t sequence() const noexcept { return sequence_.load(std::memory_order_relaxed); }
  /// As Group::last_algorithm.
  std::string_view last_algorithm() const noexcept {
    const std::string_view* const name = ran_.load(std::memory_order_relaxed);
    return name == nullptr ? std::string_view{} : *name;
  }
  const Parts& parts() const noexcept { return parts_; }
  Duration default_timeout() const { return parts_.context->config.timeout; }
  TimePoint deadline(const Options& o) const {
    return saturating_add(parts_.context->clock.now(), o.timeout.value_or(default_timeout()));
  }

 private:
  void check_usable() const;
  void run_valid(const Call& call);
  std::shared_ptr<engine::Completion> start_valid(const Call& call);
  // UNISONO_DEBUG=buffers (buffer_checks.cc).
  void run_checked(Call call);
  std::shared_ptr<engine::Completion> start_checked(Call call);
  std::shared_ptr<group::CheckedBuffers> check_buffers(Call& call, bool blocking);
  std::shared_ptr<group::CheckedBuffers> check_message(std::span<const std::byte> data, const Awaited& what,
                                                       bool written) const;
  static std::shared_ptr<engine::Completion> checked(std::shared_ptr<engine::Completion> completion,
                                                     std::shared_ptr<group::CheckedBuffers> by);
  [[noreturn]] void refuse_process() const;
  void note_shared_rules();
  void submit(std::unique_ptr<Pending> pending);
  /// The call as an operation that travels in the announcements, if it is one: the same answer on all ranks.
  std::optional<engine::InlineCall> inline_call(const Call& call, const plan::Algorithm* requested) const;
  bool run_tiny(const Call& call);
  class Alone;
  class BlockedCall;
  class BlockedInMessage;
  class BlockedInCollective;
  class BlockedInQueue;
  void wait(const std::shared_ptr<engine::Completion>& completion, Duration timeout, const Awaited& what, bool cancel,
            group::Progress::Interrupted interrupted, engine::Blocked& blocked);
  std::vector<int> lacking(const CollectiveAhead& call) const;
  bool run_alone(const Call& call);
  void hand_on_baton() noexcept;
  Status wait_tiny(const Call& call, engine::Running& operation);
  Status settle(engine::Running& operation);  // fails the group when the operation failed
  /// The algorithm of an operation without a plan (inline_call).
  static constexpr std::string_view kInline = "inline";
  void note_run(const Pending& p);
  const plan::Algorithm& ran(const Pending& p) const;
  std::string why(const Pending* p, const plan::Algorithm* algorithm) const;
  /// Logs which algorithm ran, unless calls of this kind had it before. Null: kInline.
  void tell_run(const Call& call, const Pending* p, const plan::Algorithm* algorithm) noexcept;
  /// The algorithm that the call names, or null; throws when there is none of that name.
  static const plan::Algorithm* requested(const Call& call);
  void set_clocks(Pending& pending) const;
  // All of these under the baton.
  enum class Step : std::uint8_t { nothing, moved, ended };
  /// What can be done now of an operation; `status` is its outcome once it has ended. While nothing moves it `checks` on deadlines and peers.
  Step step(Pending& pending, Status& status, bool checks = true);
  bool begin(Pending& pending);
  void look_meanwhile(engine::Request& request) const;
  engine::Ground ground();
  Status know(Pending& pending);
  Result<Known> find_out(const Pending& pending, const engine::Signature& signature);
  std::shared_ptr<const engine::Compiled> compiled(const Call& call, const plan::Algorithm& algorithm);
  Rivalry& rivalry_of(const Call& call, int judge);
  void compete(Pending& pending, engine::Request& request);
  bool offers_get(const Pending& pending, const engine::Request& request);
  bool advance_operation(Pending& pending);
  void time_run(Pending& pending, TimePoint now);
  // Of any thread.
  Result<const plan::Algorithm*> choose(const Pending& pending) const;
  plan::Question question(const Call& call) const;
  /// As engine::Prepared has them: null where there is none.
  struct SharedAlgorithms {
    const plan::Algorithm *shared = nullptr, *preferred = nullptr;
  };
  SharedAlgorithms shared_algorithms(const Pending& pending) const;
  const plan::Algorithm* rival_algorithm(const Pending& pending) const;
  int judge_of(const Call& call) const noexcept;
  void refuse_private_buffers(const Pending& pending, const plan::Plan& plan, const engine::Binding& binding) const;
  void adopt_buffers(const Pending& pending) const;
  void check_source(std::string_view verb, int src);
  std::shared_ptr<engine::Completion> send_valid(std::span<const std::byte> data, int dst, std::int64_t tag,
                                                 Duration timeout, const std::shared_ptr<engine::UnderWay>& counted);
  std::shared_ptr<engine::Completion> receive_valid(std::span<std::byte> data, int src, std::int64_t tag,
                                                    Duration timeout, const std::shared_ptr<engine::UnderWay>& counted);
  void check_receive(std::span<const std::byte> data, int src);
  static std::shared_ptr<engine::Completion> received_nothing();
  void adopt_message(std::span<const std::byte> data, int peer, Duration timeout) const;
  bool let_go(Pending& pending);
  Status check_on(Pending& pending);
  void read_news(const Pending& pending) const;
  bool lacks_a_rank(std::uint64_t sequence);
  Status annotate(const Status& status, const std::string& what, TimePoint started) const;
  std::string describe(const Pending& pending) const;
  std::string describe(const Awaited& what) const;
  std::string describe_call(const Call& call, std::uint64_t sequence, std::string_view algorithm) const;
  Status mismatch(std::uint64_t sequence, int other, const engine::Signature& ours,
                  const engine::Signature& theirs) const;
  /// The Timeout of a collective. `waiting`: whom it waits for; `known`: it is known how far the
  /// others have come, and those are named who have come least far.
  Status late(std::uint64_t sequence, const std::vector<int>& waiting, bool known) const;
  engine::HowFar how_far() const;
  /// Of the others that have not begun `sequence`, those that keep all the rest waiting.
  std::vector<int> least_far(std::uint64_t sequence, const engine::HowFar& far) const;
  /// In words, what rank q called last.
  std::string newest_call(int q, std::uint64_t sequence) const;
  /// "ranks 1 (host a, pid 7), 2 (host b, pid 9)"
  std::string names_of(const std::vector<int>& ranks) const;
  void check_not_destroyed() const;
  bool take_baton_for_good();
  /// The group cannot go on, here and on all members. The first reason wins.
  void fail(const Status& status);
  void interrupt(const std::shared_ptr<engine::Completion>& completion, const Awaited& what);
  /// The group's end: this rank was interrupted in a call.
  Status interruption(std::string_view verb) const;
  engine::Signature signature_of(const Call& call, const plan::Algorithm* requested) const;
  /// Of those that are to make a subgroup: why one of them cannot, if so.
  Status no_use_in_waiting_for(const std::vector<int>& ranks) const;

  Parts parts_;
  /// All of the group share memory. A copy: destroy() takes the domain away while another thread may still wait.
  const bool one_host_ = parts_.domain != nullptr;
  group::BufferChecks* const checks_ = parts_.context->checks.get();  ///< null unless UNISONO_DEBUG=buffers
  std::atomic<std::uint64_t> called_{0};  ///< collectives, where checks_ are made: the last one's number
  std::array<std::int64_t, kCollectives> shared_from_{};  ///< bytes from which the table may choose a shared plan
  std::array<bool, kCollectives>
      overridden_{};                    ///< rank 0's UNISONO_ALGORITHM has rules for it: they beat the tiny path
  std::atomic<bool> destroyed_{false};  ///< calls are refused
  std::atomic<bool> left_{false};
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<const std::string_view*> ran_{nullptr};  ///< name of what ran last; null while it is under way
  std::unique_ptr<group::FirstRuns> first_runs_;       ///< null unless they are logged; under the baton
  std::atomic<bool> baton_{false};                     ///< whoever holds it runs the operation at the head
  std::atomic<std::thread::id> holder_{};  ///< whoever holds it and waits, for destroy() in its signal handlers
  /// It was refused to somebody once. Until then nobody has to be woken, which would cost a small operation a tenth of its time.
  std::atomic<bool> contended_{false};
  std::atomic<int> queued_{0};
  std::mutex queue_mutex_;
  std::deque<std::unique_ptr<Pending>> queue_;
  TimePoint next_check_{};          ///< when to look again for a passed deadline or a lost peer, under the baton
  std::vector<std::byte> scratch_;  ///< lent to the operation at the head; under the baton
  std::unique_ptr<engine::Operation>
      operation_;  ///< of whichever call runs; its memory serves them all. Under the baton
  static constexpr int kKnownBits = 5;
  std::array<Known, std::size_t{1} << kKnownBits> known_;  ///< by hash of the signature; under the baton
  /// By collective, algorithm, root, and whether it is widened; under the baton.
  std::map<std::tuple<Collective, const plan::Algorithm*, int, bool>, std::shared_ptr<const engine::Compiled>> plans_;
  std::map<std::tuple<Collective, int, int>, Rivalry>
      rivalries_;  ///< by collective, digits of its bytes, and judge; under the baton
  std::mutex subgroup_mutex_;
  std::map<std::vector<int>, int> subgroups_made_;  ///< how often each member list was made a group
};

/// "tag 3", or "any tag".
std::string words_of_tag(std::int64_t tag);
[[noreturn]] void refuse_tag(std::int64_t tag, bool sends);
/// Programs have no business with the library's own tags.
inline void check_tag_to_send(std::int64_t tag) {
  if (tag < kLeastTag) refuse_tag(tag, true);
}
inline void check_tag_to_receive(std::int64_t tag) {
  if (tag < kLeastTag && tag != kAnyTag) refuse_tag(tag, false);
}

/// Work's side of a completion.
class WorkImpl {
 public:
  std::shared_ptr<GroupImpl> group;
  std::shared_ptr<engine::Completion> completion;
  Awaited what;
  TimePoint deadline = TimePoint::max();  ///< of a message; a collective looks after its own
  bool soon_over = false;                 ///< to wake the progress thread for it would take longer than it takes
};

/// Memory of this rank's that a call reads or writes.
struct Area {
  const std::byte* begin = nullptr;
  std::int64_t bytes = 0;
};
struct Areas {
  Area input, output;
};
/// Throws InvalidArgument where the counts are wrong.
Areas areas_of(const Call& call, int rank, int size, const std::string& group);
/// Throws InvalidArgument unless the call makes sense for a group of `size`; everything is checked before anything is sent.
void validate(const Call& call, int rank, int size, const std::string& group);
/// Whether the call's input lies in its output, but not where this rank's block does (all_gather,
/// gather at the root).
bool is_misplaced(const Call& call, int rank, int size) noexcept;
/// Of such a call: brings the input to this rank's own block of the output, as Gloo does. Nothing
/// for others. To be called when the operation begins, not before: an earlier one may be at work on
/// the memory.
void put_in_place(Call& call, int rank, int size) noexcept;
/// S of the selection table, in bytes.
std::int64_t collective_bytes(const Call& call, int size);
/// All counts equal?
bool even(const Call& call);

/// Joins a group through a store (Context::create_group). The others are told through the store if
/// this rank cannot.
std::shared_ptr<GroupImpl> join(const std::shared_ptr<ContextImpl>& context, std::shared_ptr<Store> store, int rank,
                                int size, const std::string& name);
/// Connections, domain, selection: the part that joining and subgroups share. `control` are the control block offsets.
/// `watch`, unless empty: asked now and then why there is no use in waiting for those ranks.
Status connect(Parts& parts, const std::vector<std::uint64_t>& control, TimePoint deadline,
               const std::function<Status(const std::vector<int>& missing)>& watch = nullptr);

}  // namespace unisono::detail

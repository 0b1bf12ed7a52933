#pragma once
/// What the ranks of a group share in memory: a control block and a stage each, which their owner writes and all read (others write to a stage where lines go to and fro: Compiled).

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "engine/joint_work.h"
#include "engine/landing.h"
#include "engine/signature.h"
#include "engine/stage_pool.h"
#include "engine/stage_ring.h"
#include "engine/verdicts.h"
#include "kernels/shared_stores.h"
#include "plan/inline.h"
#include "plan/ir.h"
#include "transport/transport.h"

namespace unisono::engine {

/// Slices of an operation in flight.
inline constexpr std::int64_t kWindow = 8;
/// The same in messages: within a host, where they are there at once and a sum is to leave again while it lies in the caches; and between hosts, by the
/// longest way there and back (zero: unknown). More than a short way holds only lie in its queues, where they push from the caches what somebody computes with, and are lost where those are
/// full (docs/design/0007).
constexpr std::int64_t messages_window(bool one_host, Duration round_trip) noexcept {
  constexpr std::int64_t kWithinHost = 3, kSameSwitch = 2, kShortWay = 4;
  if (one_host) return kWithinHost;
  if (round_trip > Duration{} && round_trip < std::chrono::microseconds(100)) return kSameSwitch;
  return round_trip < transport::kNearBy ? kShortWay : kWindow;
}
/// Signal channels of a plan, the implicit "done" not counted.
inline constexpr int kChannels = 4;
/// Payload that fits into the line of an announcement, and the most that fits beside it.
inline constexpr std::size_t kInlineBytes = plan::kInLine, kWideBytes = plan::kMostPosted;

/// One cache line, one writer: "I have begun operation `sequence`, and this is what it is", with a small payload beside
/// it. Two of them are used in turn: nobody can be two operations ahead of anybody (Domain::may_announce).
struct alignas(64) Line {
  std::atomic<std::uint64_t> sequence;
  Signature signature;
  std::byte payload[kInlineBytes];
};
static_assert(sizeof(Line) == 64);

/// What does not fit into the line of an announcement, which then says where this lies in the rank's segment. As with lines, two places would do; with more of them the writer's stores find
/// lines that have left the cache of the peer that read them, and they are used in an order in which no peer's processor fetches ahead the one that is written next.
struct Wide {
  static constexpr std::uint64_t kTurns = 4, kStride = 3;
  std::byte payload[kTurns][kWideBytes];
  static std::uint64_t turn(std::uint64_t sequence) noexcept { return sequence * kStride % kTurns; }
};

/// A number that only grows, alone on its cache line.
struct alignas(64) Counter {
  std::atomic<std::uint64_t> value;
};

/// Work of which others may do a part while they wait for the rank.
struct Offer {
  /// Who may: a rank between whose memory and the rank's it is a copy, or kAnyone, for the rank's reduction.
  std::int32_t partner = 0;
  std::uint64_t bytes = 0, slice = 0;
  std::uint64_t mine = 0, theirs = 0;  ///< of a copy: where that is in the segments of the rank and of the partner
  bool to_partner = false;             ///< else from it
  bool around = false;                 ///< stored around the caches

  static constexpr std::int32_t kAnyone = -1;
};

/// Two of them are used in turn, as lines are.
struct alignas(64) OfferedWork {
  std::atomic<std::uint64_t> sequence{0};  ///< of the operation; set when all else is
  Offer offer;
  alignas(64) JointRecord work;  ///< changed by all
};

/// A block that a rank gets from the input of a partner, through the kernel.
struct Get {
  std::int32_t partner = 0;
  std::byte* to = nullptr;
  std::uint64_t from = 0;  ///< bytes behind where the partner's input begins
  std::uint64_t bytes = 0, slice = 0;
};

/// The same for the partner, who may write a part of it to the rank's memory. Two of them are used in turn, too.
struct OfferedGet {
  std::atomic<std::uint64_t> sequence{0};
  std::int32_t partner = 0;
  std::uint64_t from = 0;  ///< bytes behind where the partner's input begins
  Landing to;
  alignas(64) JointRecord work;
};

struct ControlBlock {
  Line line[2];
  OfferedWork offered[2];
  OfferedGet get[2];
  Counter channel[kChannels];
  Counter done;
  Counter helps;  ///< 1 + the rank of whose offered reduction this rank does a piece; 0: of nobody's
  Counter reach;  ///< of the rank: 0 not known yet, 1 not all peers' memory can be read, 2 it can
  alignas(64) Verdicts verdicts;
  Counter quit;  ///< the rank has given up all operations up to this one: it touches nobody's memory for them any more
  Counter left;  ///< 1: the rank has left the group: it will read nobody's stage or payload again
};

/// Behind the block, one a rank, which that rank sets: it will not look at the block again.
using LetGo = std::atomic<std::uint8_t>;
constexpr std::uint64_t control_bytes(int size) noexcept {
  return sizeof(ControlBlock) + (static_cast<std::uint64_t>(size) + 63) / 64 * 64;
}

/// The announcement's payload of an operation with a plan: where the rank's memory lies.
struct Whereabouts {
  std::uint64_t stage = 0;              ///< in its segment; 0: no stage
  std::uint64_t input = 0, output = 0;  ///< of the buffers that it opens to the others
  std::uint64_t flags = 0;

  /// The input, or the output, lies in the rank's segment, is open to the others, and said by its offset there. Otherwise it is said by its address.
  static constexpr std::uint64_t kOpensIn = plan::kExposesIn, kOpensOut = plan::kExposesOut;
  /// The judge's word on the first call of a kind (Verdicts): the rival runs.
  static constexpr std::uint64_t kRival = 4;
  /// What the rank stages goes around the caches: who reads it has it from memory.
  static constexpr std::uint64_t kStagesAround = 8;
  /// Who has the block that the rank gets may do a part of that (OfferedGet).
  static constexpr std::uint64_t kOffersGet = 16;
  static_assert(((kRival | kStagesAround | kOffersGet) & (kOpensIn | kOpensOut)) == 0);
  /// Whether all of `exposed` (plan/ir.h) is open.
  bool opens(std::uint8_t exposed) const noexcept { return (flags & exposed) == exposed; }
  bool opens_any() const noexcept { return (flags & (kOpensIn | kOpensOut)) != 0; }
  void close() noexcept { flags &= ~(kOpensIn | kOpensOut), input = output = 0; }
};
static_assert(sizeof(Whereabouts) <= kInlineBytes);

/// Its destructor gives nothing back: slower peers may still read. reclaim() does, and the segment itself goes when the last
/// process that maps it does. Thread-safety: one thread at a time (the one that runs the group's operations); only how far peers have read
/// is asked by others, through the pool.
class Domain final : private StageHolder {
 public:
  /// In the pool's segment, with stages from the pool, which must outlive it. `slice_bytes` 0: chosen from the size; otherwise a multiple of 64,
  /// the same on all ranks.
  static Result<std::unique_ptr<Domain>> create(StagePool& stages, int rank, int size, std::int64_t slice_bytes = 0);
  ~Domain();
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  /// Where this rank's control block lies in its segment: what peers attach() to.
  std::uint64_t control_offset() const noexcept { return control_offset_; }
  Status attach(int rank, transport::SharedView* view, std::uint64_t control_offset);

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(control_.size()); }

  // --- announcements ----------------------------------------------------------------------------------------------
  /// Whether rank q has begun operation `sequence` - 1, so that the line of `sequence` - 2 is no longer read by it.
  bool may_announce(int q, std::uint64_t sequence) noexcept {
    return begun_[q] + 1 >= sequence || found_begun(q, sequence);
  }
  /// A rank that announced something else than this one did before an operation which it may_announce(), if that showed only then: nobody looks at the
  /// lines of those from whom it needs nothing. -1: none.
  int odd_one() const noexcept { return odd_one_; }
  /// What rank q, or this one, has said of an operation that is not further back than that.
  const Signature& said(int q, std::uint64_t sequence) const noexcept {
    return control_[q]->line[sequence & 1].signature;
  }
  /// To be called, once or more, before a payload is announced that does not fit into the line: so long there is no place for it. An error when memory is full.
  Status widen();
  /// Peers that look see it from now on; those that sleep are woken by tell().
  void announce(std::uint64_t sequence, const Signature& signature, std::span<const std::byte> payload) noexcept;
  /// What rank q has announced with `line`, of so many bytes; until it may announce the operation after the next. nullptr when it does not lie in its segment.
  const std::byte* payload(int q, std::uint64_t sequence, const Line& line, std::size_t bytes) const noexcept {
    return bytes <= kInlineBytes ? line.payload : wide_payload(q, sequence, line);
  }
  /// Rank q's line of `sequence`, or nullptr as long as q has not begun it.
  const Line* line(int q, std::uint64_t sequence) noexcept {
    const Line& l = control_[q]->line[sequence & 1];
    if (l.sequence.load(std::memory_order_seq_cst) < sequence) return nullptr;
    begun_[q] = sequence;
    return &l;
  }
  /// The newest operation that rank q has begun.
  std::uint64_t latest(int q) const noexcept {
    const std::uint64_t a = control_[q]->line[0].sequence.load(std::memory_order_seq_cst);
    const std::uint64_t b = control_[q]->line[1].sequence.load(std::memory_order_seq_cst);
    return a > b ? a : b;
  }

  /// What rank q has said of a call that it judges, to be asked before this rank announces that; and what this one says, before it announces the last one before it.
  Verdict verdict(int q, const Judged& call) const noexcept { return control_[q]->verdicts.of(call); }
  void judge(const Judged& call, Verdict says) noexcept { own_->verdicts.give(call, says); }

  // --- signals: counters of slices, over all operations of the group -------------------------------------------------
  /// As announce() has it: those that sleep are woken by tell().
  void signal(int channel, std::uint64_t count) noexcept { publish(own_->channel[channel], count); }
  void signal_done(std::uint64_t count) noexcept { publish(own_->done, count); }
  /// The same for a channel that nobody waits for: nobody is woken for it.
  void skip(int channel, std::uint64_t count) noexcept {
    own_->channel[channel].value.store(count, std::memory_order_release);
  }
  /// To be called when something was announced or signalled, before this rank waits, works for long, or is through. What it looks at from here on is newer than
  /// what a peer had stored before it saw that.
  void tell() noexcept {
    if (untold_) wake_all();
  }
  bool reached(int q, int channel, std::uint64_t count) const noexcept {
    return control_[q]->channel[channel].value.load(std::memory_order_seq_cst) >= count;
  }
  bool done(int q, std::uint64_t count) const noexcept {
    return control_[q]->done.value.load(std::memory_order_seq_cst) >= count;
  }
  /// The same for the one that runs operations, who does not look at the peer's line again for what it has seen there before.
  bool known_done(int q, std::uint64_t count) noexcept {
    if (seen_done_[q] < count) seen_done_[q] = control_[q]->done.value.load(std::memory_order_seq_cst);
    return seen_done_[q] >= count;
  }
  /// The group has failed: this rank touches nobody's memory for operations up to `sequence` any more, and will not again.
  void give_up(std::uint64_t sequence) noexcept;
  bool gave_up(int q, std::uint64_t sequence) const noexcept {
    return control_[q]->quit.value.load(std::memory_order_seq_cst) >= sequence;
  }

  // --- work that ranks do together ----------------------------------------------------------------------------------
  /// This rank's side of it. One an operation.
  JointRecord& offer(std::uint64_t sequence, const Offer& what) noexcept;
  /// What rank q has offered to this rank, or to all, in the operation; nullptr: nothing yet, or it cannot be mapped.
  OfferedWork* offered(int q, std::uint64_t sequence) noexcept;
  /// The same for what this rank gets, to be called before it announces the operation.
  JointRecord& offer_get(std::uint64_t sequence, const Get& what) noexcept;
  OfferedGet* offered_get(int q, std::uint64_t sequence) noexcept;
  /// See Landing::take_back.
  void take_back_get(std::uint64_t sequence) noexcept { own_->get[sequence & 1].to.take_back(); }
  /// Rank q may wait for the end of one.
  void wake(int q) noexcept { views_[q]->wake(); }
  /// This rank is at a piece of rank q's reduction; -1: it is not any more.
  void helps(int q) noexcept { own_->helps.value.store(static_cast<std::uint64_t>(q) + 1, std::memory_order_release); }
  /// Whether rank h is at a piece of rank q's.
  bool is_helping(int h, int q) const noexcept {
    return control_[h]->helps.value.load(std::memory_order_acquire) == static_cast<std::uint64_t>(q) + 1;
  }

  std::uint64_t signalled(int channel) const noexcept {
    return own_->channel[channel].value.load(std::memory_order_relaxed);
  }
  /// Slices that all operations before the current one had; the same on all ranks.
  std::uint64_t slices = 0;
  /// The next shared plan goes through memory from the ends; the same on all ranks.
  bool from_ends = false;

  /// This rank runs nothing more in this group, and reads nobody's stage.
  void leave() noexcept;
  /// After leave(): give the stage back to the pool, and what was beside announcements to the
  /// segment, if every peer has read all that was put there (`gone` peers never will); then peers'
  /// blocks are not looked at any more, and this rank's goes back to the segment once that is true
  /// of all peers. False: ask again.
  bool reclaim(const std::vector<bool>& gone) noexcept;
  /// Keep `memory` until reclaim(): peers that have not given up operation `sequence` may still write to it.
  void keep(std::shared_ptr<const void> memory, std::uint64_t sequence) {
    kept_.push_back(std::move(memory));
    kept_for_ = sequence;
  }

  // --- buffers ------------------------------------------------------------------------------------------------------
  /// Where [data, data + bytes) lies in this rank's segment.
  transport::Place find(const void* data, std::uint64_t bytes) const noexcept { return segment_.find(data, bytes); }
  /// What lies there, at the segment's own address: registered memory has another one, too.
  std::byte* own(std::uint64_t offset) noexcept { return segment_.base() + offset; }
  /// The same area of rank q's segment, here; for writing where `write`. nullptr when it is not inside, or cannot be mapped.
  std::byte* buffer(int q, std::uint64_t offset, std::uint64_t bytes, bool write) noexcept;

  /// Who can read whose memory. Every rank says whether it can (and is allowed to) read that of all others, once it is attached to all.
  void publish_reach(bool allowed) noexcept;
  /// Whether all have said so, and then whether all can: the same on all ranks.
  bool reach_known() const noexcept;
  bool all_reach() const noexcept;
  /// The address, in its own process, of what lies at `offset` of rank q's segment.
  std::uint64_t address_of(int q, std::uint64_t offset) const noexcept { return views_[q]->address_of(offset); }
  /// Copies from the memory of rank q, at an address of its process, to one part after another.
  int read_peer(int q, std::span<const transport::MutablePart> parts, std::uint64_t from) noexcept {
    return views_[q]->read_memory(parts, from);
  }
  int read_peer(int q, std::byte* to, std::uint64_t from, std::size_t bytes) noexcept {
    return views_[q]->read_memory(to, from, bytes);
  }
  /// Copies to the memory of rank q, as SharedView has it; whether that is allowed.
  int write_peer(int q, std::span<const transport::Area> to, const std::byte* from, std::size_t bytes) noexcept {
    return views_[q]->write_memory(to, from, bytes);
  }
  bool writes_to(int q) const noexcept { return views_[q]->writes_memory(); }

  // --- stages -------------------------------------------------------------------------------------------------------
  /// Bytes of a stage; the same on all ranks.
  std::uint64_t stage_bytes() const noexcept { return ring_.bytes(); }
  /// Bytes of a slice of a block for a plan with so many blocks on a stage, the largest of them of `largest` bytes; a multiple of 64. `one_way`: data only
  /// goes to the others from a root, or from them to it.
  std::int64_t slice_bytes(std::int64_t blocks, std::int64_t largest, bool one_way) const noexcept;
  /// Slices of so many bytes and more may lie on the other rank's stage (Compiled::exchanges). Shorter ones do not pay for the wait for that rank; where slices
  /// are not chosen, all do.
  std::int64_t least_exchanged() const noexcept { return slice_bytes_ > 0 ? 1 : 32 << 10; }
  /// Places on the stages, the same on all ranks.
  StageRing& ring() noexcept { return ring_; }
  /// How this rank stores on its stages.
  kernels::SharedStores& stores() noexcept { return stores_; }
  /// This rank's stage for operation `sequence`, until leave_stage(); it need not be the one that the last operation had. nullptr: as
  /// StagePool::lend has it, ask again.
  Result<std::byte*> take_stage(std::uint64_t sequence, bool patient);
  std::uint64_t own_stage_offset() const noexcept { return stage_->offset; }
  /// The operation that took the stage, if it did, has ended well, and `slices` counts it.
  void leave_stage() noexcept;
  /// Rank q's stage at the offset it announced, to be read and, where `write`, to return sums to; nullptr when that is not inside its segment or the
  /// system refuses it.
  std::byte* stage(int q, std::uint64_t offset, bool write) noexcept {
    const PeerStage& last = peer_stages_[q];
    return last.offset == offset && last.writable >= write ? last.memory : find_stage(q, offset, write);
  }

 private:
  Domain(StagePool& stages, int rank, int size, std::int64_t slice_bytes, std::uint64_t control_offset);
  std::byte* find_stage(int q, std::uint64_t offset, bool write) noexcept;
  const std::byte* wide_payload(int q, std::uint64_t sequence, const Line& line) const noexcept;
  bool all_left(const std::vector<bool>& gone) const noexcept;
  void let_go_of_peers() noexcept;
  bool release_block() noexcept;
  bool found_begun(int q, std::uint64_t sequence) noexcept;
  void publish(Counter& counter, std::uint64_t count) noexcept {
    counter.value.store(count, std::memory_order_release);
    untold_ = true;
  }
  void wake_all() noexcept;
  bool read_by_all(const Stage& stage) const noexcept override;
  bool begun_by_all(const Stage& stage) const noexcept override;
  /// Of rank q's control block, here, for writing; nullptr when it cannot be mapped.
  template <class Record>
  Record* writable(int q, const Record& there) noexcept {
    const auto within = static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(&there) -
                                                   reinterpret_cast<const std::byte*>(control_[q]));
    return reinterpret_cast<Record*>(buffer(q, control_offsets_[q] + within, sizeof(Record), true));
  }

  StagePool& stages_;
  transport::SharedSegment& segment_;
  int rank_;
  std::uint64_t control_offset_;
  std::uint64_t wide_ = 0;  ///< where it lies; 0: nowhere yet
  ControlBlock* own_;
  std::vector<const ControlBlock*> control_;
  std::vector<transport::SharedView*> views_;
  std::vector<std::uint64_t> control_offsets_;
  /// By rank, the newest operation that it is known to have begun: its lines are not looked at for that again.
  std::vector<std::uint64_t> begun_;
  struct PeerStage {
    std::uint64_t offset = 0;
    std::byte* memory = nullptr;
    bool writable = false;  ///< then it is read there, too
  };
  std::vector<PeerStage> peer_stages_;    ///< by rank, where its last one was found
  std::vector<std::uint64_t> seen_done_;  ///< by rank, how many slices it was found to be done with
  int odd_one_ = -1;
  bool untold_ = false;  ///< something was announced or signalled since tell()
  std::vector<std::shared_ptr<const void>> kept_;
  std::uint64_t kept_for_ = 0;
  std::int64_t slice_bytes_;  ///< 0: chosen
  StageRing ring_;
  kernels::SharedStores stores_;
  std::shared_ptr<Stage> stage_;  ///< the last one that was lent; others may have it by now
  bool on_stage_ = false;         ///< an operation uses it
  bool reclaimed_ = false;
};

}  // namespace unisono::engine

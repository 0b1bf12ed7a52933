#pragma once
/// One running plan. advance() does what can be done now and never blocks: no thread, no socket of its own, and no clock but for how long sums
/// and copies over memory take (FasterWay), on which nothing but their speed depends.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/binding.h"
#include "engine/compiled.h"
#include "engine/domain.h"
#include "engine/faster_way.h"
#include "engine/frame.h"
#include "engine/joint_copy.h"
#include "engine/mates.h"
#include "engine/running.h"
#include "engine/signature.h"
#include "engine/waiter.h"
#include "kernels/kernels.h"

namespace unisono::engine {

class Messenger;

/// Bytes that are read from a peer's memory at a time, to be reduced while they lie in the cache.
inline constexpr std::size_t kFetched = 128 << 10;
static_assert(kUncut <= kFetched);

/// A reduce of which two ranks do a part each has no more bytes: then slices are not longer than what is fetched at a time.
inline constexpr std::int64_t kMostSummed = Landing::kMostSlices * kFetched;

/// The one block of a peer's input that this rank copies, or sums with its own, and that the peer may do a part of; of 0 bytes: none, several, or longer than that.
PeerBlock got_block(const Bound& bound) noexcept;

/// A step of a shared plan is done in pieces of so many bytes of a block: between them the messenger is looked after.
inline constexpr std::size_t kPiece = 512 << 10;

/// Peers that sleep can wait for so many bytes to be moved before they are woken (Domain::tell).
inline constexpr std::size_t kBrief = 64 << 10;

/// So many looks a mate has to be done with its part, if it is to go first.
inline constexpr int kPrecedence = 20;

/// What an operation runs on: the group's side.
struct Ground {
  Domain* domain = nullptr;  ///< null when the members do not share memory
  Messenger* messenger = nullptr;
  std::uint64_t group = 0;
  int rank = 0;
  int size = 1;
  std::vector<std::byte>* scratch = nullptr;  ///< grows as needed, kept between operations
  bool one_host = true;                       ///< on which all ranks are
  std::int64_t network_slice = 0;             ///< bytes of a slice in messages; 0: chosen
  std::int64_t network_window = kWindow;      ///< slices in flight in messages, at most kWindow
  std::int64_t least_folded = Fold::kLeast;   ///< bytes of slices in flight that are reduced as they come
  Mates mates{};
  Crowd* crowd = nullptr;  ///< hears of work that peers do for long on this rank's core; null: nobody asks
};

/// What calls of the same collective, types and sizes have in common: which plans they may run. It knows nobody's memory.
struct Prepared {
  Bound usual;
  /// `usual` is a shared plan that only reads others' buffers, wherever they lie (Domain::all_reach).
  bool reads_peers = false;
  /// A shared plan that runs instead if every rank opens the buffers that it needs. Which one it is becomes known when those ranks
  /// have begun; a rank that opens nothing of what it should makes all run `usual`.
  Bound shared;
  /// Another shared plan, which needs other buffers and is better: it runs instead of `shared` if every rank opens those. None without `shared`.
  Bound preferred;
  /// A plan that only reads others' buffers, which runs instead of `usual` when rank `judge` says so (Request::judged).
  Bound rival;
  /// Of what `shared` needs only the judge opens anything. Others would have to wait for its announcement before they can do whatever runs, so it says one call ahead that
  /// no shared plan does, once its buffers were private for some calls.
  bool judge_opens = false;
  int judge = 0;
  DType dtype = DType::u8;
  ReduceOp op = ReduceOp::sum;
  Signature signature;
};

/// How a rank that waits lets others have the core.
class Turns {
 public:
  /// False where that is not the way to wait.
  virtual bool give_way() noexcept = 0;

 protected:
  ~Turns() = default;
};

/// What is to be run.
struct Request {
  std::shared_ptr<const Prepared> prepared;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  /// Where there is a judge: which call it is, and the judge's word on the next one of its kind, and on this one if it is the first.
  Judged judged{};
  bool rival_runs = false, rival_runs_next = false;
  /// This rank offers a part of the one block that it gets through the kernel, if it does, to the rank that has it.
  bool offers_get = false;
  /// The caller does nothing but wait for it: so often a short message may be looked for before anything else is looked at.
  int looks = 0;
  /// Where ranks take turns on the cores: how they are given their turn between two looks. Longer messages are looked for, too, then.
  Turns* turns = nullptr;
};

/// The slices of a plan run through a window of slots, oldest first: while one waits for a peer the next is staged, which
/// is all the software pipelining there is. A shared plan runs as one slice, or one after another, whose steps are done in pieces, so that a failure
/// is noticed between them. One object serves any number of calls, one after another, and keeps what it has allocated. Thread-safety: one
/// thread at a time; messages complete from any thread.
class Operation final : public Running {
 public:
  /// Runs nothing yet.
  explicit Operation(const Ground& ground);
  Operation(Request request, const Ground& ground, std::uint64_t sequence);
  /// The next call. What ran before has ended well: after a failure others may still refer to what is here.
  void start(Request request, std::uint64_t sequence);
  bool advance() override;
  std::vector<int> waiting_for() const override;
  bool let_go(const std::vector<bool>& gone) override;
  bool everyone_here() override;
  void hurry() override { patient_ = false; }
  std::string_view algorithm() const override { return plan().algorithm; }
  /// Which of its Prepared's plans runs, or has run.
  const Bound& runs() const noexcept { return *bound_; }

 private:
  enum StepState : std::uint8_t { kIdle = 0, kPosted = 1, kDone = 2, kFolded = 3 };
  struct Slot {
    std::int64_t slice = -1;  ///< -1: free
    bool finished = false;
    bool swapped = false;                        ///< what is for one rank's stage lies on the other's
    std::uint64_t stage = 0;                     ///< where its blocks lie on every rank's stage
    std::uint32_t* position = nullptr;           ///< next step of each lane, or next action
    std::atomic<std::uint8_t>* state = nullptr;  ///< of each step
  };
  /// What a rank has announced.
  struct Peer {
    bool arrived = false;
    std::byte* stage = nullptr;
    Whereabouts where;
    std::byte *in = nullptr, *out = nullptr;  ///< its buffers, once a shared plan was decided on
  };
  struct Part {
    std::byte* data;
    std::size_t bytes;
    int peer = -1;  ///< whose memory it is: `data` is what that rank announced, and can only be read through the domain
  };
  enum class Done : std::uint8_t { all, some, nothing };

  bool go_on();
  /// Domain::tell(), where there is one.
  void tell() const noexcept {
    if (ground_.domain != nullptr) ground_.domain->tell();
  }
  bool begin();
  bool announce();
  bool decide();
  void decide_alone();
  bool decide_shared();
  std::optional<bool> all_open(const Bound& shared);
  bool decide_rival();
  void judge(Domain& domain, Whereabouts& mine);
  void become(const Bound& bound, bool reads_peers);
  bool peers_are_ready();
  bool is_readable(int q);
  bool open_peers();
  void prepare();
  void take_direction();
  void long_yields_were_peers() noexcept;
  void lay_out();
  const plan::Plan& plan() const noexcept { return bound_->plan(); }
  bool swaps(const StageRing::Place& place) const noexcept { return exchanges_ && place.turn % 2 == 1; }
  /// Lines of stages go to and fro between two caches, and who writes there has just read there; or they stay in one, of plans that read others' buffers.
  bool to_and_fro() const noexcept { return exchanges_ || bound_->compiled->returns || plan().shared; }
  /// Whose stage it is that the plan calls rank `rank`'s.
  std::size_t host_of(const Slot& slot, std::int32_t rank) const noexcept {
    return static_cast<std::size_t>(slot.swapped ? 1 - rank : rank);
  }
  const Prepared& prepared() const noexcept { return *request_.prepared; }
  void open_buffers(Whereabouts& mine);
  bool start_slices();
  bool has_place(std::uint64_t global);
  bool advance_slot(Slot& slot);
  bool advance_uncut(Slot& slot);
  bool go_straight(Slot& slot);
  bool act(const Slot& slot, const Action& action);
  bool act_copy(const Slot& slot, const Action& action);
  bool act_reduce(const Slot& slot, const Action& action);
  std::byte* memory_at(const Slot& slot, const Address& a) const;
  bool act_get(const Slot& slot, const Action& action, std::span<const Address> targets, const Address& from);
  bool act_offered(std::byte* to, const Part& from);
  Part part_of_peer(const Address& a, std::size_t bytes) const;
  std::uint64_t announced_at(plan::Space space, std::int32_t rank) const;
  bool gives_precedence(const Slot& slot);
  std::uint32_t step_at(std::span<const std::uint32_t> lane, std::uint32_t place) const;
  bool advance_lane(Slot& slot, std::size_t lane);
  bool post_ahead(Slot& slot, std::size_t lane);
  bool ready(const Slot& slot, std::uint32_t index) const;  ///< all that it waits for is done
  bool run_step(Slot& slot, std::uint32_t index);           ///< whether it could start; sets the state
  bool run_wait(const Slot& slot, const plan::Step& step);
  bool run_signal(const Slot& slot, const plan::Step& step);
  Done run_copy(Slot& slot, std::uint32_t index);
  Done run_reduce(const Slot& slot, std::uint32_t index);
  std::size_t find_operands(const Slot& slot, const plan::Step& step, std::int32_t further, std::size_t at,
                            std::span<void*> memory) const;
  /// Bytes of a block.
  struct Stretch {
    std::size_t at = 0, bytes = 0;
  };
  Stretch next_stretch(std::size_t bytes) const;
  bool fetch_operands(const Slot& slot, const plan::Step& step, const Stretch& now, std::span<void*> memory);
  bool from_memory(const plan::Step& step) const;
  bool convert(const plan::Step& step, const Part& to, const Part& from) const;
  kernels::Reduce reduction(const plan::Step& step) const;  ///< what a reduce does, without hints
  void reduce_operands(const plan::Step& step, std::span<void* const> memory, std::size_t bytes);
  void reduce_piece(kernels::Reduce& what, std::span<void* const> dst, std::span<void* const> src, std::size_t bytes);
  bool fetch(std::span<const transport::MutablePart> parts, const Part& from, std::size_t at);
  bool fetch(std::byte* to, const Part& from, std::size_t at, std::size_t bytes);
  bool offer(const Slot& slot, const plan::Step& step);
  Done run_offered();
  void offer_get(Whereabouts& mine);
  bool only_waits(int q) const;
  bool is_offered_get(std::uint32_t step) const;
  Done run_get(std::byte* to, const Part& from);
  bool get_slices();
  void sum_of_two(std::byte* to, const std::byte* own, const std::byte* others, std::size_t bytes);
  bool help_get(int q);
  bool finds_offered_get(int q);
  bool help(const Slot& slot, int q);
  bool help_copy(int q);
  Done run_joint_reduction(const Slot& slot);
  bool help_reduction(const Slot& slot, int q);
  void reduce_jointly(const Slot& slot, int q, const JointWork::Piece& piece);
  void run_message(Slot& slot, std::uint32_t index);
  Stream::Found collect(const Slot& slot, std::uint32_t index, const FrameHeader& header,
                        std::span<const transport::MutablePart> parts);
  void receive(Slot& slot, std::uint32_t index, const FrameHeader& header, std::vector<transport::MutablePart> parts);
  std::int32_t folded_into(const Slot& slot, std::uint32_t index) const;
  std::shared_ptr<const Fold> fold(const Slot& slot, const plan::Step& sum, const plan::Ref& arrived) const;
  bool passed(const Slot& slot, std::uint32_t step) const;
  bool retire();
  void finish();
  bool peer_arrived(int q);
  /// Whether something may be put on a stage: what goes to the other rank's, once that has said where it is. (What follows a wait for that rank need not ask.)
  bool has_stage(const Slot& slot) { return !slot.swapped || peer_arrived(1 - ground_.rank); }
  /// The memory of block `block` of `ref` on this slice.
  Part part(const Slot& slot, const plan::Ref& ref, std::int32_t block) const;
  std::uint64_t global_slice(const Slot& slot) const { return base_ + static_cast<std::uint64_t>(slot.slice); }

  Request request_;
  Ground ground_;
  const Bound* bound_ = nullptr;     ///< what runs, one of prepared()'s; `usual` until that is decided
  const Bound* laid_out_ = nullptr;  ///< what slices and slots are made for
  bool reads_peers_ = false, shared_open_ = false, rival_open_ = false;  ///< the latter: to be decided
  std::optional<bool> rival_runs_;                                       ///< the judge's word, once it is known
  bool closed_ = false;                                                  ///< likewise, said one call ahead
  std::uint32_t private_calls_ = 0;  ///< in a row, in which this judge has opened nothing
  std::int64_t slice_bytes_ = 0, slices_ = 1, next_slice_ = 0, retired_ = 0;
  std::int64_t scratch_stride_ = 0;
  std::uint64_t base_ = 0;
  std::optional<StageRing::Place> place_;  ///< on the stages, for the next slice
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> positions_;                 ///< of all slots
  std::unique_ptr<std::atomic<std::uint8_t>[]> states_;  ///< likewise
  std::size_t states_room_ = 0;
  std::vector<Peer> peers_;            ///< by rank
  transport::Place own_in_, own_out_;  ///< where this rank's buffers lie, once they are open, until the end
  struct Piece {
    std::int32_t block = 0;
    std::size_t at = 0;
  };
  Piece piece_;  ///< how far the current step of a shared plan is
  /// Blocks of this plan are gone through from their ends. Shared plans whose memory may lie in caches take turns: what the last one touched last is still there then.
  bool backwards_ = false;
  int precedence_ = 0;                           ///< for so many looks yet a mate may go first
  bool joint_copies_ = false;                    ///< of the plan that runs: ranks help each other with copies,
  bool joint_gets_ = false;                      ///< with such as go through the kernel,
  const plan::Step* joint_reduction_ = nullptr;  ///< or with this one
  std::optional<JointCopy> offered_, helping_;   ///< of this rank's copies, and of rank helped_'s
  int helper_ = -1, helped_ = -1;                ///< who may do a part of the former
  std::byte* get_to_ =
      nullptr;       ///< where they go through the kernel: what this rank gets comes here, once it has begun,
  Part get_from_{};  ///< from there,
  OfferedGet* put_to_ = nullptr;         ///< and what it helps with goes there,
  const std::byte* put_from_ = nullptr;  ///< from here
  bool puts_fail_ = false;               ///< that was refused once: not again
  std::optional<JointWork> reducing_;    ///< this rank's reduction
  bool patient_ = true;                  ///< waits for a stage that peers still read
  bool announced_ = false, begun_ = false;
  bool uncut_ = false;        ///< runs as actions
  bool straight_ = false;     ///< its messages are to be looked for (Compiled::straight)
  bool looks_ = false;        ///< likewise, just now
  bool folds_ = false;        ///< slices are reduced as they come, where they may be (Compiled::foldings)
  bool exchanges_ = false;    ///< Compiled::exchanges, and its slices are long enough
  std::int64_t touched_ = 0;  ///< bytes of this rank's input and output
  // What all ranks' inputs and outputs do to the caches:
  bool large_ = false;          ///< they fill them; what is not read on the way is stored around them
  bool beyond_caches_ = false;  ///< they do not even fit: they come from memory
  /// How sums of what comes from memory go through it: at one place at a time, or at several (kernels::Reduce::far). By staged and shared plans, results that go
  /// through the caches or around them, and the number of sources: what one of these finds out would mislead the next.
  std::array<std::array<FasterWay, 5>, 4> places_;
  FasterWay copies_;  ///< and copies
};

}  // namespace unisono::engine

#include "engine/domain.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "transport/fence.h"

namespace unisono::engine {

namespace {
constexpr std::int64_t kLine = 64;
/// At least so many slices of the largest size find room on a stage.
constexpr std::int64_t kInFlight = 4;
/// A cut costs a signal and a wait, so slices of large blocks are large, and small blocks are not cut.
constexpr std::int64_t kOneWaySlice = 16 << 10, kSmallSlice = 32 << 10, kGoodSlice = 64 << 10, kLargeSlice = 256 << 10;
constexpr std::int64_t kAllStages = 4 << 20;

/// Large enough that a line which is written again has left the cache of the peer that read it, small enough that all stages together stay in
/// the caches that the cores share (docs/design/0003-speed.md).
std::uint64_t choose_ring(int size, std::int64_t slice_bytes) {
  const std::int64_t n = size;
  if (slice_bytes > 0) return static_cast<std::uint64_t>(kInFlight * slice_bytes * n);
  return static_cast<std::uint64_t>(std::max(kAllStages / n / 4096 * 4096, kInFlight * kSmallSlice * n));
}
}  // namespace

Domain::Domain(StagePool& stages, int rank, int size, std::int64_t slice_bytes, std::uint64_t control_offset)
    : stages_(stages),
      segment_(stages.segment()),
      rank_(rank),
      control_offset_(control_offset),
      own_(new(segment_.base() + control_offset) ControlBlock{}),
      control_(size, nullptr),
      views_(size, nullptr),
      control_offsets_(size, 0),
      begun_(size, 0),
      peer_stages_(size),
      seen_done_(size, 0),
      slice_bytes_(slice_bytes),
      ring_(choose_ring(size, slice_bytes)),
      stores_(ring_.bytes()) {
  control_[rank] = own_;
  stages_.join();
}

Domain::~Domain() {
  if (!reclaimed_) stages_.abandon(*this, stage_);
}

Result<std::unique_ptr<Domain>> Domain::create(StagePool& stages, int rank, int size, std::int64_t slice_bytes) {
  auto offset = stages.segment().allocate(control_bytes(size));
  if (!offset) return offset.status().with_context("shared memory for a group's control block");
  return std::unique_ptr<Domain>(new Domain(stages, rank, size, slice_bytes, *offset));
}

void Domain::leave() noexcept {
  own_->left.value.store(1, std::memory_order_seq_cst);
  wake_all();
}

bool Domain::reclaim(const std::vector<bool>& gone) noexcept {
  if (reclaimed_) return release_block();
  for (int q = 0; q < size() && !kept_.empty(); q++)
    if (q != rank_ && !(q < static_cast<int>(gone.size()) && gone[q]) && !gave_up(q, kept_for_)) return false;
  kept_.clear();
  if (wide_ != 0) {
    if (!all_left(gone)) return false;
    segment_.release(std::exchange(wide_, 0), sizeof(Wide));
  }
  if (!stages_.leave(*this, stage_)) return false;
  reclaimed_ = true;
  let_go_of_peers();
  return release_block();
}

/// Where a peer's memory cannot be mapped for writing, its block is the peer's for good.
void Domain::let_go_of_peers() noexcept {
  for (int q = 0; q < size(); q++) {
    if (q == rank_) continue;
    const std::uint64_t own_word = sizeof(ControlBlock) + static_cast<std::uint64_t>(rank_);
    if (std::byte* const word = buffer(q, control_offsets_[q] + own_word, sizeof(LetGo), true))
      reinterpret_cast<LetGo*>(word)->store(1, std::memory_order_release);
    control_[q] = nullptr;
  }
}

bool Domain::release_block() noexcept {
  const auto* const let_go = reinterpret_cast<const LetGo*>(segment_.base() + control_offset_ + sizeof(ControlBlock));
  for (int q = 0; q < size(); q++)
    if (q != rank_ && let_go[q].load(std::memory_order_acquire) == 0 && views_[q]->alive()) return false;
  segment_.release(control_offset_, control_bytes(size()));
  return true;
}

/// A peer that has given up an operation which failed here reads no more of it; one that never began it may do so late, until it leaves.
bool Domain::read_by_all(const Stage& stage) const noexcept {
  for (int q = 0; q < size(); q++)
    if (q != rank_ && !done(q, stage.slices) && !gave_up(q, stage.sequence) && control_[q]->left.value.load() == 0 &&
        views_[q]->alive())
      return false;
  return true;
}

bool Domain::begun_by_all(const Stage& stage) const noexcept {
  for (int q = 0; q < size(); q++)
    if (q != rank_ && latest(q) < stage.sequence && views_[q]->alive()) return false;
  return true;
}

Status Domain::attach(int rank, transport::SharedView* view, std::uint64_t control_offset) {
  const std::byte* memory = view->at(control_offset, control_bytes(size()));
  if (memory == nullptr || control_offset % alignof(ControlBlock) != 0)
    return Status::internal(fmt::format("rank {} published a control block outside its segment", rank));
  control_[rank] = reinterpret_cast<const ControlBlock*>(memory);
  views_[rank] = view;
  control_offsets_[rank] = control_offset;
  return {};
}

/// What was stored before is seen by a peer that goes to sleep, or this rank sees that it sleeps; and what this rank looks at from here on is newer than what a peer
/// had stored before it saw that. One fence does for both, and for all peers: each waits until stores have reached lines that lie in other caches.
void Domain::wake_all() noexcept {
  untold_ = false;
  transport::full_fence();
  for (transport::SharedView* view : views_)
    if (view != nullptr) view->wake_after_fence();
}

Status Domain::widen() {
  if (wide_ != 0) return {};
  auto offset = segment_.allocate(sizeof(Wide));
  if (!offset) return offset.status().with_context("shared memory for a group's small operands");
  wide_ = *offset;
  return {};
}

const std::byte* Domain::wide_payload(int q, std::uint64_t sequence, const Line& line) const noexcept {
  std::uint64_t offset = 0;
  std::memcpy(&offset, line.payload, sizeof offset);
  const std::byte* const wide = q == rank_ ? segment_.base() + offset : views_[q]->at(offset, sizeof(Wide));
  return wide == nullptr ? nullptr : reinterpret_cast<const Wide*>(wide)->payload[Wide::turn(sequence)];
}

/// Who has left reads nothing more that lies beside announcements: not even that of an operation in which nobody had to wait for it.
bool Domain::all_left(const std::vector<bool>& gone) const noexcept {
  for (int q = 0; q < size(); q++)
    if (q != rank_ && control_[q]->left.value.load() == 0 && !(q < static_cast<int>(gone.size()) && gone[q]) &&
        views_[q]->alive())
      return false;
  return true;
}

bool Domain::found_begun(int q, std::uint64_t sequence) noexcept {
  begun_[q] = latest(q);
  if (begun_[q] + 1 < sequence) return false;
  // It cannot have gone further: for that this rank would have had to begin.
  if (said(q, sequence - 1) != said(rank_, sequence - 1)) odd_one_ = q;
  return true;
}

void Domain::announce(std::uint64_t sequence, const Signature& signature, std::span<const std::byte> payload) noexcept {
  Line& l = own_->line[sequence & 1];
  l.signature = signature;
  if (payload.size() > kInlineBytes) {
    auto* const wide = reinterpret_cast<Wide*>(segment_.base() + wide_);
    std::memcpy(wide->payload[Wide::turn(sequence)], payload.data(), payload.size());
    std::memcpy(l.payload, &wide_, sizeof wide_);
  } else if (!payload.empty()) {
    std::memcpy(l.payload, payload.data(), payload.size());
  }
  l.sequence.store(sequence, std::memory_order_release);
  untold_ = true;
}

namespace {
/// It is nobody's but its owner's until the sequence number is there.
void fill_in(JointRecord& record, std::uint64_t bytes, std::uint64_t slice) noexcept {
  record.bytes = bytes;
  record.slice = slice;
  record.owner_in_front = 1;
  record.finished.store(0, std::memory_order_relaxed);
  record.claims.store(0, std::memory_order_relaxed);
}
}  // namespace

JointRecord& Domain::offer(std::uint64_t sequence, const Offer& what) noexcept {
  // Nobody looks at it for the operation before the last one any more: whoever has begun the last one has ended that.
  OfferedWork& offered = own_->offered[sequence & 1];
  offered.offer = what;
  fill_in(offered.work, what.bytes, what.slice);
  offered.sequence.store(sequence, std::memory_order_seq_cst);
  what.partner == Offer::kAnyone ? wake_all() : wake(what.partner);
  return offered.work;
}

OfferedWork* Domain::offered(int q, std::uint64_t sequence) noexcept {
  const OfferedWork& there = control_[q]->offered[sequence & 1];
  if (there.sequence.load(std::memory_order_acquire) != sequence) return nullptr;
  if (there.offer.partner != rank_ && there.offer.partner != Offer::kAnyone) return nullptr;
  return writable(q, there);
}

JointRecord& Domain::offer_get(std::uint64_t sequence, const Get& what) noexcept {
  OfferedGet& offered = own_->get[sequence & 1];
  offered.partner = what.partner;
  offered.from = what.from;
  offered.to.open(what.to, what.bytes, what.slice);
  fill_in(offered.work, what.bytes, what.slice);
  offered.sequence.store(sequence, std::memory_order_release);
  return offered.work;
}

OfferedGet* Domain::offered_get(int q, std::uint64_t sequence) noexcept {
  OfferedGet* const there = writable(q, control_[q]->get[sequence & 1]);
  if (there == nullptr) return nullptr;
  __builtin_prefetch(&there->work,
                     1);  // it is claimed next, and comes from the other core beside what is looked at here
  return there->sequence.load(std::memory_order_acquire) == sequence && there->partner == rank_ ? there : nullptr;
}

void Domain::give_up(std::uint64_t sequence) noexcept {
  if (std::exchange(on_stage_, false)) stage_->leave(this, Stage::kNever);
  if (own_->quit.value.load(std::memory_order_relaxed) >= sequence) return;
  own_->quit.value.store(sequence, std::memory_order_seq_cst);
  wake_all();
}

std::byte* Domain::buffer(int q, std::uint64_t offset, std::uint64_t bytes, bool write) noexcept {
  if (offset == 0 || views_[q] == nullptr) return nullptr;
  return write ? views_[q]->writable(offset, bytes) : const_cast<std::byte*>(views_[q]->at(offset, bytes));
}

std::int64_t Domain::slice_bytes(std::int64_t blocks, std::int64_t largest, bool one_way) const noexcept {
  const std::int64_t whole = std::max((largest + kLine - 1) / kLine * kLine, kLine);
  if (slice_bytes_ > 0) return std::min(slice_bytes_, whole);
  const std::int64_t room = static_cast<std::int64_t>(stage_bytes()) / (kInFlight * blocks) / kLine * kLine;
  const std::int64_t most = std::min(room, kLargeSlice);
  const std::int64_t good = one_way ? std::clamp(whole / 2 / kLine * kLine, kOneWaySlice, kGoodSlice) : kGoodSlice;
  return std::min(whole, std::clamp(whole / kInFlight / kLine * kLine, std::min(most, good), most));
}

void Domain::publish_reach(bool allowed) noexcept {
  bool all = allowed;
  for (int q = 0; q < size(); q++) all &= q == rank_ || (views_[q] != nullptr && views_[q]->reads_memory());
  own_->reach.value.store(all ? 2 : 1, std::memory_order_seq_cst);
  wake_all();
}

bool Domain::reach_known() const noexcept {
  return std::all_of(control_.begin(), control_.end(),
                     [](const ControlBlock* c) { return c->reach.value.load() != 0; });
}

bool Domain::all_reach() const noexcept {
  return std::all_of(control_.begin(), control_.end(),
                     [](const ControlBlock* c) { return c->reach.value.load() == 2; });
}

/// A stage that is new is read from one end to the other before long. With many ranks its pages come when they are needed, as most would wait for them in the first operation.
std::byte* Domain::find_stage(int q, std::uint64_t offset, bool write) noexcept {
  constexpr std::uint64_t kMappedAtOnce = 16 << 20;  // of all peers: 2 ms
  std::byte* const memory = buffer(q, offset, stage_bytes(), write);
  if (memory != nullptr && stage_bytes() * control_.size() <= kMappedAtOnce)
    views_[q]->map_now(offset, stage_bytes(), write);
  peer_stages_[q] = {offset, memory, write};
  return memory;
}

Result<std::byte*> Domain::take_stage(std::uint64_t sequence, bool patient) {
  if (stage_ == nullptr || !stage_->enter(this, sequence)) {
    auto lent = stages_.lend(*this, stage_, stage_bytes(), sequence, patient);
    if (!lent) return lent.status();
    if (*lent == nullptr) return nullptr;
    stage_ = std::move(lent).value();
  }
  on_stage_ = true;
  return segment_.base() + stage_->offset;
}

void Domain::leave_stage() noexcept {
  if (std::exchange(on_stage_, false)) stage_->leave(this, slices);
}

}  // namespace unisono::engine

#include "engine/domain.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

namespace unisono::engine {

namespace {
/// All stages together should stay in the caches next to the cores: n ranks x kWindow slots x n blocks x one slice. Measured on two
/// cores with 1 MiB of L2 each (docs/design/0003-speed.md): 256 KiB is best for 2 ranks, 64 KiB for 4, 32 KiB for 8; smaller ones lose to the
/// cost of signalling them.
std::int64_t choose_slice(int size) {
  constexpr std::int64_t budget = 4 << 20;
  const std::int64_t n = size;
  return std::clamp<std::int64_t>(budget / (n * n * static_cast<std::int64_t>(kWindow)) / 4096 * 4096, 32 << 10,
                                  256 << 10);
}
}  // namespace

Domain::Domain(transport::SharedSegment& segment, int rank, int size, std::int64_t slice_bytes,
               std::uint64_t control_offset)
    : segment_(segment),
      rank_(rank),
      control_offset_(control_offset),
      own_(new(segment.base() + control_offset) ControlBlock{}),
      control_(size, nullptr),
      views_(size, nullptr),
      slice_bytes_(slice_bytes > 0 ? slice_bytes : choose_slice(size)),
      stage_bytes_(kWindow * static_cast<std::uint64_t>(slice_bytes_) * static_cast<std::uint64_t>(size)) {
  control_[rank] = own_;
}

Result<std::unique_ptr<Domain>> Domain::create(transport::SharedSegment& segment, int rank, int size,
                                               std::int64_t slice_bytes) {
  auto offset = segment.allocate(sizeof(ControlBlock));
  if (!offset) return offset.status().with_context("shared memory for a group's control block");
  return std::unique_ptr<Domain>(new Domain(segment, rank, size, slice_bytes, *offset));
}

bool Domain::reclaim(const std::vector<bool>& gone) noexcept {
  if (stage_offset_ == 0 && kept_.empty()) return true;
  for (int q = 0; q < size(); q++)
    if (q != rank_ && !(q < static_cast<int>(gone.size()) && gone[q]) &&
        !(kept_.empty() ? done(q, slices) : gave_up(q, kept_for_)))
      return false;
  kept_.clear();
  if (stage_offset_ != 0) segment_.release(stage_offset_, stage_bytes_);
  stage_offset_ = 0;
  return true;
}

Status Domain::attach(int rank, transport::SharedView* view, std::uint64_t control_offset) {
  const std::byte* memory = view->at(control_offset, sizeof(ControlBlock));
  if (memory == nullptr || control_offset % alignof(ControlBlock) != 0)
    return Status::internal(fmt::format("rank {} published a control block outside its segment", rank));
  control_[rank] = reinterpret_cast<const ControlBlock*>(memory);
  views_[rank] = view;
  return {};
}

void Domain::wake_all() noexcept {
  for (transport::SharedView* view : views_)
    if (view != nullptr) view->wake();
}

void Domain::announce(std::uint64_t sequence, const Signature& signature, std::span<const std::byte> payload) noexcept {
  Line& l = own_->line[sequence & 1];
  l.signature = signature;
  if (!payload.empty()) std::memcpy(l.payload, payload.data(), payload.size());
  // Sequentially consistent: a peer about to park announces that, then looks here again (Poller::prepare).
  l.sequence.store(sequence, std::memory_order_seq_cst);
  wake_all();
}

void Domain::signal(int channel, std::uint64_t count) noexcept {
  own_->channel[channel].value.store(count, std::memory_order_seq_cst);
  wake_all();
}

void Domain::signal_done(std::uint64_t count) noexcept {
  own_->done.value.store(count, std::memory_order_seq_cst);
  wake_all();
}

void Domain::give_up(std::uint64_t sequence) noexcept {
  if (own_->quit.value.load(std::memory_order_relaxed) >= sequence) return;
  own_->quit.value.store(sequence, std::memory_order_seq_cst);
  wake_all();
}

std::uint64_t Domain::offset_of(const void* data, std::uint64_t bytes) const noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(data), base = reinterpret_cast<std::uintptr_t>(segment_.base());
  if (at < base || at - base > segment_.bytes() || bytes > segment_.bytes() - (at - base)) return 0;
  return at - base;
}

std::byte* Domain::buffer(int q, std::uint64_t offset, std::uint64_t bytes, bool write) noexcept {
  if (offset == 0 || views_[q] == nullptr) return nullptr;
  return write ? views_[q]->writable(offset, bytes) : const_cast<std::byte*>(views_[q]->at(offset, bytes));
}

Result<std::byte*> Domain::own_stage() {
  if (stage_offset_ == 0) {
    auto offset = segment_.allocate(stage_bytes_);
    if (!offset)
      return offset.status().with_context(
          fmt::format("shared memory for a stage of {}", describe_bytes(static_cast<std::int64_t>(stage_bytes_))));
    stage_offset_ = *offset;
  }
  return segment_.base() + stage_offset_;
}

}  // namespace unisono::engine

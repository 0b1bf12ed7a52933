#include "engine/joint_copy.h"

#include <algorithm>

#include "kernels/kernels.h"

namespace unisono::engine {

namespace {

constexpr int kBits = 24;
constexpr std::uint64_t kFront = 1, kBack = std::uint64_t{1} << kBits, kCount = kBack - 1;

/// A claim costs a line that wanders from core to core, as long as copying a few KiB; a side that comes late finds so much less to do.
constexpr std::uint64_t kLeastSlice = 32 << 10, kMostSlice = 256 << 10, kSlices = 32;

constexpr std::uint64_t claimed(std::uint64_t claims) noexcept {
  return (claims & kCount) + (claims >> kBits & kCount);
}

}  // namespace

std::uint64_t JointCopy::slice_for(std::uint64_t bytes) noexcept {
  const std::uint64_t slice = std::clamp(bytes / kSlices, kLeastSlice, kMostSlice);
  return (std::max(slice, bytes >> (kBits - 2)) + 4095) / 4096 * 4096;
}

JointCopy::JointCopy(JointCopyRecord& record, Side side) noexcept
    : record_(&record),
      side_(side),
      in_front_((side == Side::owner) == (record.owner_in_front != 0)),
      bytes_(record.bytes),
      slice_(record.slice),
      slices_((bytes_ + slice_ - 1) / slice_) {}

void JointCopy::open(const std::byte* from, std::byte* to, std::uint64_t room, bool around) noexcept {
  from_ = from, to_ = to, room_ = room, around_ = around;
}

bool JointCopy::copy(std::uint64_t most) noexcept {
  bool any = false;
  for (std::uint64_t done = 0; done < most; done += slice_) {
    std::uint64_t claims = record_->claims.load(std::memory_order_acquire);
    do {
      if ((claims & (kOwnerStopped | kOtherStopped)) != 0 || claimed(claims) >= slices_) return any;
    } while (!record_->claims.compare_exchange_weak(claims, claims + (in_front_ ? kFront : kBack),
                                                    std::memory_order_acq_rel));
    const std::uint64_t slice = in_front_ ? claims & kCount : slices_ - 1 - (claims >> kBits & kCount);
    const std::uint64_t at = slice * slice_, end = std::min({at + slice_, bytes_, room_});
    if (at < end) kernels::copy(to_ + at, from_ + at, end - at, around_);
    // Sequentially consistent: a peer about to park announces that, then looks here again (Poller::prepare).
    record_->copied.fetch_add(1, std::memory_order_seq_cst);
    any = true;
  }
  return any;
}

std::uint64_t JointCopy::left() const noexcept {
  return (slices_ - std::min(slices_, claimed(record_->claims.load(std::memory_order_relaxed)))) * slice_;
}

void JointCopy::stop() noexcept {
  due_ = claimed(record_->claims.fetch_or(side_ == Side::owner ? kOwnerStopped : kOtherStopped));
}

bool JointCopy::stopped(Side side) const noexcept {
  return (record_->claims.load() & (side == Side::owner ? kOwnerStopped : kOtherStopped)) != 0;
}

}  // namespace unisono::engine

#include "engine/joint_work.h"

#include <algorithm>

namespace unisono::engine {

namespace {

constexpr int kBits = 24;
constexpr std::uint64_t kFront = 1, kBack = std::uint64_t{1} << kBits, kCount = kBack - 1, kMostSlices = kBack / 4;
/// Of what is left a side claims no more than this part.
constexpr std::uint64_t kShare = 4;

constexpr std::uint64_t claimed(std::uint64_t claims) noexcept {
  return (claims & kCount) + (claims >> kBits & kCount);
}

}  // namespace

std::uint64_t JointWork::slice_of(std::uint64_t bytes, std::uint64_t good) noexcept {
  return (std::max(good, bytes / kMostSlices) + 4095) / 4096 * 4096;
}

JointWork::JointWork(JointRecord& record, Side side) noexcept
    : record_(&record),
      side_(side),
      in_front_((side == Side::owner) == (record.owner_in_front != 0)),
      bytes_(record.bytes),
      slice_(std::max<std::uint64_t>(record.slice, 1)),
      slices_((bytes_ + slice_ - 1) / slice_) {}

std::optional<JointWork::Piece> JointWork::claim(std::uint64_t most) noexcept {
  std::uint64_t claims = record_->claims.load(std::memory_order_acquire), slices = 0;
  do {
    if ((claims & (kOwnerStopped | kOtherStopped)) != 0 || claimed(claims) >= slices_) return std::nullopt;
    slices = std::max<std::uint64_t>(1, std::min(most, (slices_ - claimed(claims)) / kShare));
  } while (!record_->claims.compare_exchange_weak(claims, claims + slices * (in_front_ ? kFront : kBack),
                                                  std::memory_order_acq_rel));
  const std::uint64_t first = in_front_ ? claims & kCount : slices_ - slices - (claims >> kBits & kCount);
  const std::uint64_t at = first * slice_;
  return Piece{at, std::min(slices * slice_, bytes_ - at), slices};
}

void JointWork::finish(const Piece& piece) noexcept {
  // Sequentially consistent: a peer about to park announces that, then looks here again (Poller::prepare).
  record_->finished.fetch_add(piece.slices, std::memory_order_seq_cst);
}

void JointWork::unclaim(const Piece& piece) noexcept {
  record_->claims.fetch_sub(piece.slices * (in_front_ ? kFront : kBack), std::memory_order_acq_rel);
}

std::uint64_t JointWork::left() const noexcept {
  return (slices_ - std::min(slices_, claimed(record_->claims.load(std::memory_order_relaxed)))) * slice_;
}

void JointWork::stop() noexcept { record_->claims.fetch_or(side_ == Side::owner ? kOwnerStopped : kOtherStopped); }

bool JointWork::quiet() const noexcept {
  const std::uint64_t claims =
      record_->claims.load();  // before the other: what is claimed and not done can only become less
  return record_->finished.load(std::memory_order_acquire) >= claimed(claims);
}

bool JointWork::stopped(Side side) const noexcept {
  return (record_->claims.load() & (side == Side::owner ? kOwnerStopped : kOtherStopped)) != 0;
}

}  // namespace unisono::engine

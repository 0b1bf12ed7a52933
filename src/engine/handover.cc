#include "engine/handover.h"

#include <algorithm>

#include "kernels/kernels.h"

namespace unisono::engine {

namespace {

/// HandoverRecord::claims: how many slices from the beginning, how many from the end, and flags.
constexpr int kBits = 24;
constexpr std::uint64_t kFront = 1, kBack = std::uint64_t{1} << kBits, kCount = kBack - 1;
constexpr std::uint64_t kTaken = std::uint64_t{1} << 60;     ///< the receiver has a buffer for it
constexpr std::uint64_t kGivenUp = std::uint64_t{1} << 61;   ///< the sender stops
constexpr std::uint64_t kDeclined = std::uint64_t{1} << 62;  ///< the receiver stops
constexpr std::uint64_t kTorn = std::uint64_t{1} << 63;      ///< the sender's buffer is its caller's again
constexpr std::uint64_t kStopped = kGivenUp | kDeclined;

/// A claim costs a line that wanders from core to core, as long as copying a few KiB; a side that comes late finds so much less to do.
constexpr std::uint64_t kLeastSlice = 32 << 10, kMostSlice = 256 << 10, kSlices = 32;
/// From so many bytes on what is copied is not in the caches any more when it is read.
constexpr std::uint64_t kBeyondCaches = 16 << 20;

constexpr std::uint64_t claimed(std::uint64_t claims) noexcept {
  return (claims & kCount) + (claims >> kBits & kCount);
}

}  // namespace

std::uint64_t Handover::slice_for(std::uint64_t bytes) noexcept {
  const std::uint64_t slice = std::clamp(bytes / kSlices, kLeastSlice, kMostSlice);
  return (std::max(slice, bytes >> (kBits - 2)) + 4095) / 4096 * 4096;
}

Handover::Handover(HandoverRecord& record, Side side, const std::byte* from) noexcept
    : record_(&record),
      side_(side),
      in_front_((side == Side::sender) == (record.sender_in_front != 0)),
      from_(from),
      bytes_(record.bytes),
      slice_(record.slice),
      slices_((bytes_ + slice_ - 1) / slice_) {}

void Handover::take(std::byte* to, std::uint64_t room, std::uint64_t target) noexcept {
  to_ = to;
  room_ = room;
  record_->target.store(target, std::memory_order_relaxed);
  record_->claims.fetch_or(kTaken, std::memory_order_acq_rel);
}

std::uint64_t Handover::target() const noexcept {
  if ((record_->claims.load(std::memory_order_acquire) & kTaken) == 0) return 0;
  return record_->target.load(std::memory_order_relaxed);
}

bool Handover::copy(std::uint64_t most) noexcept {
  bool any = false;
  for (std::uint64_t done = 0; done < most; done += slice_) {
    std::uint64_t claims = record_->claims.load(std::memory_order_acquire);
    do {
      if ((claims & kStopped) != 0 || claimed(claims) >= slices_) return any;
    } while (!record_->claims.compare_exchange_weak(claims, claims + (in_front_ ? kFront : kBack),
                                                    std::memory_order_acq_rel));
    const std::uint64_t slice = in_front_ ? claims & kCount : slices_ - 1 - (claims >> kBits & kCount);
    const std::uint64_t at = slice * slice_, end = std::min({at + slice_, bytes_, room_});
    if (at < end) kernels::copy(to_ + at, from_ + at, end - at, bytes_ >= kBeyondCaches);
    record_->copied.fetch_add(1, std::memory_order_acq_rel);
    any = true;
  }
  return any;
}

bool Handover::complete() const noexcept {
  if (record_->copied.load(std::memory_order_acquire) < slices_) return false;
  return side_ == Side::sender || (record_->claims.load() & kTorn) == 0;
}

bool Handover::given_up() const noexcept { return (record_->claims.load() & kGivenUp) != 0; }
bool Handover::declined() const noexcept { return (record_->claims.load() & kDeclined) != 0; }

bool Handover::withdraw() noexcept {
  std::uint64_t claims = 0;
  return record_->claims.compare_exchange_strong(claims, kGivenUp);
}

void Handover::stop() noexcept {
  const std::uint64_t before = record_->claims.fetch_or(side_ == Side::sender ? kGivenUp : kDeclined);
  due_ = claimed(before);
}

bool Handover::quiet() const noexcept { return record_->copied.load(std::memory_order_acquire) >= due_; }
void Handover::tear() noexcept { record_->claims.fetch_or(kTorn); }

bool Handover::withdrawn(const HandoverRecord& record) noexcept { return (record.claims.load() & kGivenUp) != 0; }

void Handover::decline(HandoverRecord& record) noexcept {
  record.claims.fetch_or(kDeclined);
  record.left.store(1, std::memory_order_release);
}

}  // namespace unisono::engine

#include "engine/handover.h"

#include <algorithm>

namespace unisono::engine {

namespace {

/// More flags of JointRecord::claims.
constexpr std::uint64_t kTaken = std::uint64_t{1} << 60;  ///< the receiver has a buffer for it
constexpr std::uint64_t kTorn = std::uint64_t{1} << 63;   ///< the sender's buffer is its caller's again
/// From so many bytes on what is copied is not in the caches any more when it is read.
constexpr std::uint64_t kBeyondCaches = 16 << 20;

}  // namespace

void Handover::take(std::byte* to, std::uint64_t room, std::uint64_t target) noexcept {
  open(from_, to, room, bytes() >= kBeyondCaches);
  record_->target.store(target, std::memory_order_relaxed);
  record_->claims.fetch_or(kTaken, std::memory_order_acq_rel);
}

std::uint64_t Handover::target() const noexcept {
  if ((record_->claims.load(std::memory_order_acquire) & kTaken) == 0) return 0;
  return record_->target.load(std::memory_order_relaxed);
}

void Handover::open_target(std::byte* to) noexcept { open(from_, to, bytes(), bytes() >= kBeyondCaches); }

bool Handover::copy_through_kernel(std::uint64_t most, transport::SharedView& peer, int& error) noexcept {
  if (side_ == kReceiver)
    return opened() && move(most, Landing::kAtOnce, [&](const Piece& piece) {
             const std::uint64_t end = std::min(piece.at + piece.bytes, room());
             if (piece.at < end)
               error = peer.read_memory(to() + piece.at, reinterpret_cast<std::uintptr_t>(from_) + piece.at,
                                        end - piece.at);
             return error == 0;
           });
  return landing_ != nullptr && move(most, Landing::kAtOnce, [&](const Piece& piece) {
           if (peer.write_memory(landing_->areas(piece, slice()), from_ + piece.at, piece.bytes) != 0)
             landing_ = nullptr;
           return landing_ != nullptr;
         });
}

bool Handover::complete() const noexcept {
  return all_finished() && (side_ == kSender || (record_->claims.load() & kTorn) == 0);
}

bool Handover::withdraw() noexcept {
  std::uint64_t claims = 0;
  return record_->claims.compare_exchange_strong(claims, kOwnerStopped);
}

void Handover::tear() noexcept { record_->claims.fetch_or(kTorn); }

bool Handover::withdrawn(const HandoverRecord& record) noexcept { return (record.claims.load() & kOwnerStopped) != 0; }

void Handover::decline(HandoverRecord& record) noexcept {
  record.claims.fetch_or(kOtherStopped);
  record.left.store(1, std::memory_order_release);
}

}  // namespace unisono::engine

#pragma once
/// Short writes beside the ring. Through the ring a message takes three lines from core to core, one behind the other: the index, and the
/// data on lines that neither core holds any more; here the line that says that something came brings it along.
///
/// The stream keeps its order because a slot says where in the stream its bytes belong: the reader takes a slot when it has come that far, and no more
/// from the ring than what lies before the next slot. A slot is written before whatever follows it in the ring is published, so a reader
/// that looks at the ring first and at the slots then never misses one. When no slot is free, bytes go through the ring.

#include <cstring>
#include <limits>
#include <span>

#include "transport/shm/layout.h"
#include "transport/transport.h"

namespace unisono::transport::shm {

class LaneWriter {
 public:
  LaneWriter(ControlBlock& mine, const ControlBlock& theirs) noexcept : mine_(mine), theirs_(theirs) {}

  /// Write all of `parts`, `bytes` in all, which are the stream's from `position` on; false: they have to go through the ring.
  bool put(std::span<const ConstPart> parts, std::uint64_t bytes, std::uint64_t position) noexcept {
    if (bytes > Slot::kBytes) return false;
    if (written_ - read_ >= kSlots) {
      read_ = theirs_.slots_read.load(std::memory_order_acquire);
      if (written_ - read_ >= kSlots) return false;  // nonsense, too
    }
    Slot& slot = mine_.slots[written_++ % kSlots];
    slot.bytes = static_cast<std::uint32_t>(bytes);
    std::byte* to = slot.data;
    for (const ConstPart& part : parts) {
      if (part.empty()) continue;
      std::memcpy(to, part.data(), part.size());
      to += part.size();
    }
    slot.stamp.store(position + 1, std::memory_order_release);
    return true;
  }

 private:
  ControlBlock& mine_;
  const ControlBlock& theirs_;
  std::uint64_t written_ = 0;
  std::uint64_t read_ = 0;  ///< by the reader, as last seen
};

class LaneReader {
 public:
  LaneReader(ControlBlock& mine, const ControlBlock& theirs) noexcept : mine_(mine), theirs_(theirs) {}

  /// Bytes of the stream from `position` on that lie before the next slot: 0 when it is the slot's turn.
  std::uint64_t before_slot(std::uint64_t position) const noexcept {
    const std::uint64_t stamp = slot().stamp.load(std::memory_order_acquire);
    // A slot of the last round has an older stamp, and one that is begun counts from where it began.
    return stamp == 0 || stamp - 1 + taken_ < position ? std::numeric_limits<std::uint64_t>::max()
                                                       : stamp - 1 + taken_ - position;
  }
  /// All of the slot in front, when its bytes are the stream's from `position` on and none are taken yet; otherwise nothing.
  ConstPart front(std::uint64_t position) const noexcept {
    const Slot& s = slot();
    if (s.stamp.load(std::memory_order_acquire) != position + 1 || taken_ != 0) return {};
    const std::uint32_t bytes = s.bytes;  // once: it is the peer's
    return bytes <= Slot::kBytes ? ConstPart(s.data, bytes) : ConstPart();
  }
  void drop_front() noexcept { mine_.slots_read.store(++read_, std::memory_order_release); }
  /// When before_slot() is 0: up to `room` of its bytes. 0: what it says makes no sense.
  std::uint64_t get(std::byte* to, std::uint64_t room) noexcept {
    const std::uint64_t bytes = slot().bytes;
    if (bytes > Slot::kBytes || bytes <= taken_) return 0;
    const std::uint64_t n = std::min(room, bytes - taken_);
    std::memcpy(to, slot().data + taken_, n);
    taken_ += n;
    if (taken_ == bytes) {
      taken_ = 0;
      drop_front();
    }
    return n;
  }

 private:
  const Slot& slot() const noexcept { return theirs_.slots[read_ % kSlots]; }

  ControlBlock& mine_;
  const ControlBlock& theirs_;
  std::uint64_t read_ = 0;
  std::uint64_t taken_ = 0;  ///< bytes of the slot in front
};

}  // namespace unisono::transport::shm

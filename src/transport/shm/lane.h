#pragma once
/// Short writes beside the ring. Through the ring a message takes three lines from core to core, one behind the other: the index, and the
/// data on lines that neither core holds any more; here the line that says that something came brings it along, or its beginning.
///
/// They lie one behind the other around an area of their own, each from the beginning of a line on, and none across the area's end. The stream keeps its order because each
/// says where in the stream its bytes belong: the reader takes it when it has come that far, and no more from the ring than what lies before the next one. It is written
/// before whatever follows it in the ring is published, so a reader that looks at the ring first and at the lane then never misses one. When there is no room, bytes go through the ring.
///
/// The reader looks at the line where the next one will begin, so before a write shows, the stamp behind it is cleared: what lies there is of an earlier turn.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>

#include "transport/shm/layout.h"
#include "transport/transport.h"

namespace unisono::transport::shm {

inline constexpr std::size_t kBeforeLaneData = offsetof(LaneLine, data);

/// Lines that so many bytes take.
constexpr std::uint64_t lane_lines(std::uint64_t bytes) noexcept {
  return (kBeforeLaneData + bytes + kLine - 1) / kLine;
}

class LaneWriter {
 public:
  LaneWriter(ControlBlock& mine, const ControlBlock& theirs) noexcept : mine_(mine), theirs_(theirs) {}

  /// Write all of `parts`, `bytes` in all, which are the stream's from `position` on; false: they have to go through the ring.
  bool put(std::span<const ConstPart> parts, std::uint64_t bytes, std::uint64_t position) noexcept {
    if (bytes > kMostInLane) return false;
    const std::uint64_t lines = lane_lines(bytes), at = written_ % kLaneLines;
    const std::uint64_t skipped = at + lines > kLaneLines ? kLaneLines - at : 0;
    if (!has_room(skipped + lines + 1)) return false;
    const std::uint64_t begin = (at + skipped) % kLaneLines;
    mine_.lane[(begin + lines) % kLaneLines].stamp.store(0, std::memory_order_relaxed);
    LaneLine& first = mine_.lane[begin];
    first.bytes = static_cast<std::uint32_t>(bytes);
    std::byte* to = reinterpret_cast<std::byte*>(mine_.lane) + begin * kLine + kBeforeLaneData;
    for (const ConstPart& part : parts) {
      if (part.empty()) continue;
      std::memcpy(to, part.data(), part.size());
      to += part.size();
    }
    first.stamp.store(position + 1, std::memory_order_release);
    if (skipped > 0) {
      mine_.lane[at].bytes = LaneLine::kTurn;
      mine_.lane[at].stamp.store(position + 1, std::memory_order_release);
    }
    written_ += skipped + lines;
    return true;
  }

 private:
  bool has_room(std::uint64_t lines) noexcept {
    if (written_ - read_ + lines <= kLaneLines) return true;
    read_ = theirs_.lane_read.load(std::memory_order_acquire);
    const std::uint64_t used = written_ - read_;
    return used <= kLaneLines && used + lines <= kLaneLines;  // more is nonsense
  }

  ControlBlock& mine_;
  const ControlBlock& theirs_;
  std::uint64_t written_ = 0;  ///< lines, ever
  std::uint64_t read_ = 0;     ///< by the reader, as last seen
};

class LaneReader {
 public:
  LaneReader(ControlBlock& mine, const ControlBlock& theirs) noexcept : mine_(mine), theirs_(theirs) {}

  /// Bytes of the stream from `position` on that lie before the next short write: 0 when it is its turn.
  std::uint64_t before(std::uint64_t position) noexcept {
    const std::uint64_t stamp = look();
    // One that is begun counts from where it began.
    return stamp == 0 || stamp - 1 + taken_ < position ? std::numeric_limits<std::uint64_t>::max()
                                                       : stamp - 1 + taken_ - position;
  }
  /// All of the write in front, when its bytes are the stream's from `position` on and none are taken yet; otherwise nothing.
  ConstPart front(std::uint64_t position) noexcept {
    return look() == position + 1 && taken_ == 0 ? ConstPart(data(), bytes_in_front()) : ConstPart();
  }
  /// What front() gave has been read.
  void drop_front() noexcept {
    read_ += lane_lines(bytes_);
    taken_ = 0;
    mine_.lane_read.store(read_, std::memory_order_release);
  }
  /// When before() is 0: up to `room` of its bytes. 0: what it says makes no sense.
  std::uint64_t get(std::byte* to, std::uint64_t room) noexcept {
    if (taken_ == 0 && bytes_in_front() == 0) return 0;
    const std::uint64_t n = std::min(room, bytes_ - taken_);
    std::memcpy(to, data() + taken_, n);
    taken_ += n;
    if (taken_ == bytes_) drop_front();
    return n;
  }

 private:
  const LaneLine& line() const noexcept { return theirs_.lane[read_ % kLaneLines]; }
  const std::byte* data() const noexcept {
    return reinterpret_cast<const std::byte*>(theirs_.lane) + read_ % kLaneLines * kLine + kBeforeLaneData;
  }
  /// The stamp of the write in front, at the lane's beginning if it goes on there.
  std::uint64_t look() noexcept {
    const std::uint64_t stamp = line().stamp.load(std::memory_order_acquire), at = read_ % kLaneLines;
    if (stamp == 0 || at == 0 || taken_ > 0 || line().bytes != LaneLine::kTurn) return stamp;
    read_ += kLaneLines - at;
    return line().stamp.load(std::memory_order_acquire);
  }
  /// Of a write of which nothing is taken yet, looked at once, as it is the peer's; 0: it makes no sense.
  std::uint64_t bytes_in_front() noexcept {
    const std::uint32_t bytes = line().bytes;
    const bool sense = bytes <= kMostInLane && read_ % kLaneLines + lane_lines(bytes) <= kLaneLines;
    return bytes_ = sense ? bytes : 0;
  }

  ControlBlock& mine_;
  const ControlBlock& theirs_;
  std::uint64_t read_ = 0;               ///< lines, ever
  std::uint64_t bytes_ = 0, taken_ = 0;  ///< of the write in front
};

}  // namespace unisono::transport::shm

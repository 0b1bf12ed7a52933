#include "engine/joint_copy.h"

#include <algorithm>

#include "kernels/kernels.h"

namespace unisono::engine {

namespace {
/// A claim costs a line that wanders from core to core, as long as copying a few KiB; a side that comes late finds so much less to do.
constexpr std::uint64_t kLeastSlice = 32 << 10, kMostSlice = 256 << 10, kSlices = 32;
}  // namespace

void copy(std::byte* to, const std::byte* from, std::size_t bytes, bool around, FasterWay& ways) noexcept {
  if (!around || bytes < FasterWay::kLeast) return kernels::copy(to, from, bytes, around);
  ways.take(bytes, [&](std::size_t way) { kernels::copy(to, from, bytes, true, way == 1); });
}

std::uint64_t JointCopy::slice_for(std::uint64_t bytes) noexcept {
  return slice_of(bytes, std::clamp(bytes / kSlices, kLeastSlice, kMostSlice));
}

void JointCopy::open(const std::byte* from, std::byte* to, std::uint64_t room, bool around) noexcept {
  from_ = from, to_ = to, room_ = room, around_ = around;
}

bool JointCopy::copy(std::uint64_t most, FasterWay& ways) noexcept {
  return move(most, 1, [&](const Piece& piece) {
    const std::uint64_t end = std::min(piece.at + piece.bytes, room_);
    if (piece.at < end) engine::copy(to_ + piece.at, from_ + piece.at, end - piece.at, around_, ways);
    return true;
  });
}

}  // namespace unisono::engine

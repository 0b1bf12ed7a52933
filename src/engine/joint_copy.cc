#include "engine/joint_copy.h"

#include <algorithm>

#include "kernels/kernels.h"

namespace unisono::engine {

namespace {
/// A claim costs a line that wanders from core to core, as long as copying a few KiB; a side that comes late finds so much less to do.
constexpr std::uint64_t kLeastSlice = 32 << 10, kMostSlice = 256 << 10, kSlices = 32;
}  // namespace

std::uint64_t JointCopy::slice_for(std::uint64_t bytes) noexcept {
  return slice_of(bytes, std::clamp(bytes / kSlices, kLeastSlice, kMostSlice));
}

void JointCopy::open(const std::byte* from, std::byte* to, std::uint64_t room, bool around) noexcept {
  from_ = from, to_ = to, room_ = room, around_ = around;
}

bool JointCopy::copy(std::uint64_t most) noexcept {
  std::uint64_t done = 0;
  while (done < most) {
    const auto piece = claim(1);
    if (!piece) break;
    const std::uint64_t end = std::min(piece->at + piece->bytes, room_);
    if (piece->at < end) kernels::copy(to_ + piece->at, from_ + piece->at, end - piece->at, around_);
    finish(*piece);
    done += piece->bytes;
  }
  return done > 0;
}

}  // namespace unisono::engine

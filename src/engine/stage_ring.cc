#include "engine/stage_ring.h"

#include <algorithm>

namespace unisono::engine {

StageRing::Place StageRing::take(std::uint64_t slice, std::uint64_t bytes, std::uint64_t within) {
  constexpr std::uint64_t kLine = 64, kShort = 4 << 10, kGap = 1 << 10, kFew = 16;
  Place place;
  const auto release_oldest = [&] {
    place.free_after = taken_.front().slice + 1;
    taken_.pop_front();
  };
  bytes = (bytes + kLine - 1) / kLine * kLine;
  if (bytes == 0) return place;
  if (next_ + bytes >
      std::min(within, bytes_)) {  // what is left at the end is too small: whoever lies there is the oldest
    while (!taken_.empty() && taken_.front().begin >= next_) release_oldest();
    next_ = 0;
    turn_++;
  }
  place.offset = next_;
  place.turn = turn_;
  const bool leave_gap = bytes <= kShort && bytes + kGap <= bytes_ / kFew;
  next_ = std::min(next_ + bytes + (leave_gap ? kGap : 0), bytes_);
  while (!taken_.empty() && taken_.front().begin >= place.offset && taken_.front().begin < next_) release_oldest();
  taken_.push_back({slice, place.offset, next_});
  return place;
}

}  // namespace unisono::engine

#include "transport/shm/extents.h"

#include <iterator>

namespace unisono::transport::shm {

std::optional<std::uint64_t> Extents::take(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t skew) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, length] = *it;
    const std::uint64_t lost = (skew - offset) & (alignment - 1);
    const std::uint64_t start = offset + lost;
    if (length < lost || length - lost < bytes) continue;
    const std::uint64_t rest = length - lost - bytes;
    if (rest > 0) free_.emplace(start + bytes, rest);
    if (lost > 0)
      it->second = lost;
    else
      free_.erase(it);
    return start;
  }
  return std::nullopt;
}

void Extents::merge(Map::iterator at) noexcept {
  if (const auto next = std::next(at); next != free_.end() && at->first + at->second == next->first) {
    at->second += next->second;
    free_.erase(next);
  }
  if (at == free_.begin()) return;
  if (const auto before = std::prev(at); before->first + before->second == at->first) {
    before->second += at->second;
    free_.erase(at);
  }
}

void Extents::give(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes > 0) merge(free_.emplace(offset, bytes).first);
}

void Extents::give(Map::node_type node) noexcept { merge(free_.insert(std::move(node)).position); }

}  // namespace unisono::transport::shm

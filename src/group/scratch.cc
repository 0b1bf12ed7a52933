#include "group/scratch.h"

#include <algorithm>
#include <utility>

namespace unisono::group {

std::vector<std::byte> ScratchPool::take() noexcept {
  const std::lock_guard lock(mutex_);
  if (pieces_.empty()) return {};
  std::vector<std::byte> piece = std::move(pieces_.back());
  pieces_.pop_back();
  return piece;
}

void ScratchPool::give(std::vector<std::byte> piece) {
  if (piece.empty()) return;
  const std::lock_guard lock(mutex_);
  const auto at = std::upper_bound(pieces_.begin(), pieces_.end(), piece,
                                   [](const auto& a, const auto& b) { return a.size() < b.size(); });
  pieces_.insert(at, std::move(piece));
}

void ScratchPool::trim() noexcept {
  const std::lock_guard lock(mutex_);
  if (pieces_.size() > 1) pieces_.erase(pieces_.begin(), pieces_.end() - 1);
}

}  // namespace unisono::group

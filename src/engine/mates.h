#pragma once
/// Who shares a processor with whom, where ranks are more than processors.

#include <cstdint>

namespace unisono::engine {

/// The ranks that wait on the same processor as this one, where ranks take turns on them; as far as they are in the group.
struct Mates {
  int before = -1, after = -1;    ///< the last one with a smaller number, the next with a larger one; -1: none
  int count = 1;                  ///< with this one
  std::int64_t second_cache = 0;  ///< bytes, of the processor
  /// Whether buffers of so many bytes on each of them are no less than the cache that they share.
  bool fill_cache(std::int64_t bytes) const noexcept { return count > 1 && bytes * count >= second_cache; }
  friend bool operator==(const Mates&, const Mates&) = default;
};

}  // namespace unisono::engine

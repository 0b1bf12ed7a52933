#pragma once
/// A stretch of memory that lies in several pieces.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace unisono::engine {

/// `length` bytes from `offset` on of what `parts` are one behind the other; shorter, or nothing, where they end before that. `Part` is a span of bytes.
template <class Part>
std::vector<Part> section(std::span<const Part> parts, std::uint64_t offset, std::uint64_t length) {
  std::vector<Part> found;
  for (const Part& part : parts) {
    if (length == 0) break;
    const std::size_t skip = std::min<std::uint64_t>(offset, part.size());
    offset -= skip;
    const std::size_t take = std::min<std::uint64_t>(length, part.size() - skip);
    if (take > 0) found.push_back(part.subspan(skip, take));
    length -= take;
  }
  return found;
}

}  // namespace unisono::engine

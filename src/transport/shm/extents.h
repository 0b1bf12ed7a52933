#pragma once
/// Free ranges of an address space: first fit, neighbours merge. Pure; not thread-safe.

#include <cstdint>
#include <map>
#include <optional>

namespace unisono::transport::shm {

class Extents {
 public:
  using Map = std::map<std::uint64_t, std::uint64_t>;  ///< offset to length

  /// A range of `bytes` that begins `skew` behind a multiple of `alignment`, which is a power of two; nothing when none is free.
  std::optional<std::uint64_t> take(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t skew = 0);
  void give(std::uint64_t offset, std::uint64_t bytes);
  /// The same without allocating memory: `node` is reused.
  void give(Map::node_type node) noexcept;

 private:
  void merge(Map::iterator at) noexcept;
  Map free_;
};

}  // namespace unisono::transport::shm

#pragma once
/// Free ranges of an address space: first fit, neighbours merge. Pure; not thread-safe.

#include <cstdint>
#include <map>
#include <optional>

namespace unisono::transport::shm {

class Extents {
 public:
  using Map = std::map<std::uint64_t, std::uint64_t>;  ///< offset to length

  /// An aligned range of `bytes`, or nothing when none is free. `alignment` is a power of two.
  std::optional<std::uint64_t> take(std::uint64_t bytes, std::uint64_t alignment);
  void give(std::uint64_t offset, std::uint64_t bytes);
  /// The same without allocating memory: `node` is reused.
  void give(Map::node_type node) noexcept;

 private:
  void merge(Map::iterator at) noexcept;
  Map free_;
};

}  // namespace unisono::transport::shm

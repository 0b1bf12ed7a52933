#pragma once
/// Where the pages of an area of memory come from.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"

namespace unisono {

/// The seam to the system's memory policy, so that a test on a small machine can see what a large one is asked. Thread-safety: any thread.
class MemoryBinder {
 public:
  virtual ~MemoryBinder() = default;
  /// Pages of [area, area + bytes) that are not there yet come from NUMA node `node` while it has any to spare, whoever touches them first.
  /// `area` begins with a page. Does not block; no page is moved.
  virtual Status prefer(std::byte* area, std::uint64_t bytes, int node) = 0;
};

/// mbind(2).
std::shared_ptr<MemoryBinder> make_memory_binder();

/// Where the memory of a rank should be.
struct MemoryHome {
  int node = 0;                          ///< the system's number
  std::shared_ptr<MemoryBinder> binder;  ///< never null
};

}  // namespace unisono

#pragma once
/// What is mapped at one address of this process, asked in less than a microsecond (Linux 6.11; for_each_mapping asks any system, but reads all).

#include <cstdint>
#include <optional>

#include "base/fd.h"
#include "base/memory_map.h"

namespace unisono {

/// Thread-safety: at() from any thread. In a forked child it answers for the parent.
class MapQuery {
 public:
  MapQuery() = default;  ///< cannot answer
  /// One that cannot answer where the system has no such call, or there is no descriptor left.
  static MapQuery open() noexcept;
  explicit operator bool() const noexcept { return static_cast<bool>(file_); }
  /// The mapping that contains `address`, or else the first one behind it, without name and flags; nothing when there is none. Only when it can answer.
  std::optional<Mapping> from(std::uintptr_t address) const noexcept;

 private:
  Fd file_;
};

}  // namespace unisono

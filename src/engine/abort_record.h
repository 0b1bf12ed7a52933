#pragma once
/// Why something ended, as it is flooded to the others: they then raise the same first reason.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/handshake.h"
#include "base/status.h"

namespace unisono::engine {

/// Either the end of a process (`dead` is set: every group it was in fails) or of one group (`group` is set).
struct AbortRecord {
  std::uint64_t group = 0;
  std::optional<PeerId> dead;
  Status status;  ///< for `dead` its rank is not meaningful: ranks differ by group

  std::vector<std::byte> encode() const;
  static Result<AbortRecord> decode(std::span<const std::byte> bytes);
};

}  // namespace unisono::engine

#pragma once
/// The fingerprint that every operation carries: what was called, in words, not a hash, so that a mismatch can show both sides.

#include <cstdint>
#include <string>

#include "unisono/types.hpp"

namespace unisono::engine {

/// A value of 16 bytes that travels in the first message or slot of every collective.
struct Signature {
  std::uint64_t what = 0;   ///< collective, dtype, op, algorithm, root, and whether counts are uneven
  std::uint64_t count = 0;  ///< elements, or a hash of the counts when they are uneven
  friend bool operator==(const Signature&, const Signature&) = default;

  struct Fields {
    Collective collective = Collective::barrier;
    DType dtype = DType::u8;
    ReduceOp op = ReduceOp::sum;
    int root = 0;
    bool uneven = false;
    int algorithm = 0;  ///< 0: by the table; else 1 + its index in the registry, when the caller asked for it
  };
  static Signature make(const Fields& fields, std::uint64_t count) noexcept;
  Fields fields() const noexcept;
  /// "all_reduce f32 sum of 1024 elements"
  std::string describe() const;
};

/// "4.0 MiB", "12 B"
std::string describe_bytes(std::int64_t bytes);

}  // namespace unisono::engine

#pragma once
/// Whether one piece of memory is a part of another.

#include <cstddef>

namespace unisono {

/// Whether [a, a + a_bytes) lies in [b, b + b_bytes).
inline bool within(const std::byte* a, std::size_t a_bytes, const std::byte* b, std::size_t b_bytes) noexcept {
  return b <= a && a + a_bytes <= b + b_bytes;
}

}  // namespace unisono

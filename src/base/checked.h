#pragma once
/// Arithmetic on counts that refuses to wrap: counts, bytes and sums over ranks are 64-bit and checked.

#include <cstdint>
#include <optional>

namespace unisono {

constexpr std::optional<std::int64_t> checked_multiply(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}
constexpr std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}

/// a / b rounded up, for a >= 0 and b > 0.
constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) noexcept { return a / b + (a % b != 0); }

}  // namespace unisono

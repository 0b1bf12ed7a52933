/// f16 and bf16 to f32 and back, one at a time, by integer operations: the same on every processor and in every
/// rounding mode.

#include <bit>
#include <cstdint>

#include "kernels/kernels.h"

namespace unisono::kernels {

float f16_to_f32(std::uint16_t h) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000) << 16;
  const std::uint32_t exponent = (h >> 10) & 0x1f;
  std::uint32_t mantissa = h & 0x3ff;
  if (exponent == 0x1f) {
    const std::uint32_t quiet = mantissa != 0 ? 0x400000 : 0;
    return std::bit_cast<float>(sign | 0x7f800000 | quiet | mantissa << 13);
  }
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 127 - 15) << 23 | mantissa << 13);
  if (mantissa == 0) return std::bit_cast<float>(sign);
  // Denormal: mantissa * 2^-24, whose leading bit becomes the implicit one.
  const int shift = std::countl_zero(mantissa) - (32 - 11);
  mantissa = (mantissa << shift) & 0x3ff;
  return std::bit_cast<float>(sign | static_cast<std::uint32_t>(127 - 14 - shift) << 23 | mantissa << 13);
}

std::uint16_t f32_to_f16(float f) noexcept {
  const auto u = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t sign = (u >> 16) & 0x8000;
  const std::uint32_t magnitude = u & 0x7fffffff;
  std::uint32_t result = 0;
  if (magnitude > 0x7f800000) {
    result = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  } else if (magnitude >= 143u << 23) {  // 2^16 and more, infinity too
    result = 0x7c00;
  } else if (magnitude >=
             113u << 23) {  // normal; rounding up may carry into the exponent, up to infinity, as it should
    result = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  } else if (magnitude >= 102u << 23) {  // 2^-25 and more: a denormal, in units of 2^-24
    const std::uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
    const std::uint32_t shift = 126 - (magnitude >> 23);
    const std::uint32_t half = 1u << (shift - 1);
    result = (mantissa + half - 1 + ((mantissa >> shift) & 1)) >> shift;
  }
  return static_cast<std::uint16_t>(sign | result);
}

float bf16_to_f32(std::uint16_t b) noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(b) << 16); }

std::uint16_t f32_to_bf16(float f) noexcept {
  const auto u = std::bit_cast<std::uint32_t>(f);
  if ((u & 0x7fffffff) > 0x7f800000) return static_cast<std::uint16_t>((u >> 16) | 0x40);
  return static_cast<std::uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

}  // namespace unisono::kernels

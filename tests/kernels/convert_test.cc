#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/kernels.h"

namespace unisono::kernels {
namespace {

/// The value of an f16 from the definition: sign, exponent, mantissa.
double f16_value(std::uint16_t h) {
  const double sign = (h & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (h >> 10) & 31;
  const int mantissa = h & 1023;
  if (exponent == 31) return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  return exponent == 0 ? sign * std::ldexp(mantissa, -24) : sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Convert, EveryF16HasItsValue) {
  for (std::uint32_t i = 0; i < 65536; i++) {
    const auto h = static_cast<std::uint16_t>(i);
    const float f = f16_to_f32(h);
    const double expected = f16_value(h);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(f)) << i;
      ASSERT_NE(std::bit_cast<std::uint32_t>(f) & 0x400000, 0u) << "quiet: " << i;
    } else {
      ASSERT_EQ(static_cast<double>(f), expected) << i;
    }
    ASSERT_EQ(std::signbit(f), (h & 0x8000) != 0) << i;
  }
}

TEST(Convert, EveryF16SurvivesTheRoundTrip) {
  for (std::uint32_t i = 0; i < 65536; i++) {
    const auto h = static_cast<std::uint16_t>(i);
    const bool nan = (h & 0x7fff) > 0x7c00;
    ASSERT_EQ(f32_to_f16(f16_to_f32(h)), nan ? h | 0x200 : h) << i;
  }
}

/// Between two neighbours: the middle goes to the even one, whatever is nearer to one of them goes there.
TEST(Convert, F32ToF16RoundsToNearestEven) {
  for (std::uint32_t i = 0; i < 0x7c00; i++) {
    const auto low = static_cast<std::uint16_t>(i);
    const auto high = static_cast<std::uint16_t>(i + 1);
    const double above = i + 1 == 0x7c00 ? 65536.0 : f16_value(high);  // infinity starts where the next number would be
    const auto middle = static_cast<float>((f16_value(low) + above) / 2);
    const std::uint16_t even = (low & 1) == 0 ? low : high;
    ASSERT_EQ(f32_to_f16(middle), even) << i;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), low) << i;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 1e9f)), high) << i;
    ASSERT_EQ(f32_to_f16(-middle), even | 0x8000) << i;
  }
}

TEST(Convert, F32ToF16AtTheEnds) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(f32_to_f16(inf), 0x7c00);
  EXPECT_EQ(f32_to_f16(-inf), 0xfc00);
  EXPECT_EQ(f32_to_f16(1e30f), 0x7c00);
  EXPECT_EQ(f32_to_f16(65519.99f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-0.0f), 0x8000);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0);
  EXPECT_EQ(f32_to_f16(0x1.000002p-25f), 1);
  EXPECT_EQ(f32_to_f16(std::bit_cast<float>(0x7f800001u)), 0x7e00) << "a signalling NaN becomes quiet, not infinity";
  EXPECT_EQ(f32_to_f16(std::bit_cast<float>(0xffc00000u)), 0xfe00);
}

TEST(Convert, EveryBf16SurvivesTheRoundTrip) {
  for (std::uint32_t i = 0; i < 65536; i++) {
    const auto b = static_cast<std::uint16_t>(i);
    const bool nan = (b & 0x7fff) > 0x7f80;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(bf16_to_f32(b)), i << 16);
    ASSERT_EQ(f32_to_bf16(bf16_to_f32(b)), nan ? b | 0x40 : b) << i;
  }
}

TEST(Convert, F32ToBf16RoundsToNearestEven) {
  for (std::uint32_t i = 0; i < 0x7f80; i++) {
    const std::uint32_t middle = (i << 16) | 0x8000;
    const std::uint32_t even = (i & 1) == 0 ? i : i + 1;
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(middle)), even) << i;
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(middle - 1)), i) << i;
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(middle + 1)), i + 1) << i;
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(0x80000000u | middle)), even | 0x8000) << i;
  }
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x7f800001u)), 0x7fc0) << "a signalling NaN becomes quiet, not infinity";
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x7fffffffu)), 0x7fff) << "the addition must not carry into the sign";
}

}  // namespace
}  // namespace unisono::kernels

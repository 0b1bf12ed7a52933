/// Vectors of f16 and bf16 as f32, and back, bit by bit against the scalar conversions.

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernel_set.h"

namespace unisono::kernels {
namespace {

float widened(DType half, std::uint16_t h) { return half == DType::f16 ? f16_to_f32(h) : bf16_to_f32(h); }
std::uint16_t narrowed(DType half, float f) { return half == DType::f16 ? f32_to_f16(f) : f32_to_bf16(f); }

class Conversions : public testing::TestWithParam<const KernelSet*> {
 protected:
  const KernelSet& set() const { return *GetParam(); }
};

TEST_P(Conversions, EveryHalfIsWidened) {
  for (const DType half : {DType::f16, DType::bf16}) {
    std::vector<std::uint16_t> all(65536);
    for (std::size_t i = 0; i < all.size(); i++) all[i] = static_cast<std::uint16_t>(i);
    std::vector<float> wide(all.size());
    set().widen(wide.data(), all.data(), half, all.size());
    for (std::size_t i = 0; i < all.size(); i++) {
      const float expected = widened(half, all[i]);
      if (expected == expected)
        ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), std::bit_cast<std::uint32_t>(expected)) << i;
      else
        ASSERT_NE(wide[i], wide[i]) << i;
    }
  }
}

/// Halves themselves, the middles between two of them, and what lies just beside those; the ends of
/// the range; the NaN of reduce().
std::vector<float> borders(DType half) {
  std::vector<float> values{65519.f, 65520.f, 65536.f, 3.4e38f, INFINITY, -INFINITY, 1e-45f, -0.f, 0.f};
  values.push_back(std::bit_cast<float>(0x7fc00000u));
  for (std::uint32_t h = 0; h < 0x7f00; h += 3) {
    const float low = widened(half, static_cast<std::uint16_t>(h)),
                high = widened(half, static_cast<std::uint16_t>(h + 1));
    if (!(high < INFINITY)) break;
    const float middle = low + (high - low) / 2;
    for (const float f : {low, middle, std::nextafter(middle, 0.f), std::nextafter(middle, INFINITY)})
      values.push_back(h % 2 == 0 ? f : -f);
  }
  return values;
}

TEST_P(Conversions, RoundsToNearestEven) {
  for (const DType half : {DType::f16, DType::bf16}) {
    const std::vector<float> values = borders(half);
    std::vector<std::uint16_t> got(values.size());
    set().narrow(got.data(), values.data(), half, values.size());
    for (std::size_t i = 0; i < values.size(); i++) ASSERT_EQ(got[i], narrowed(half, values[i])) << values[i];
  }
}

TEST_P(Conversions, TouchesNothingElseAtAnyLengthAndAlignment) {
  std::mt19937 random(7);
  for (const DType half : {DType::f16, DType::bf16})
    for (std::size_t count = 0; count < 70; count++)
      for (const std::size_t shift : {0, 1, 3}) {
        std::vector<unsigned char> halves(2 * count + 8, 0xee), wide(4 * count + 8, 0xee);
        for (std::size_t i = 0; i < count; i++) {
          const auto h = static_cast<std::uint16_t>(random() % 0x7c00);
          std::memcpy(&halves[shift + 2 * i], &h, 2);
        }
        set().widen(&wide[shift], &halves[shift], half, count);
        std::vector<unsigned char> back(halves.size(), 0xee);
        set().narrow(&back[shift], &wide[shift], half, count);
        ASSERT_EQ(back, halves) << count << " at " << shift;
        for (std::size_t i = shift + 4 * count; i < wide.size(); i++) ASSERT_EQ(wide[i], 0xee) << count;
      }
}

std::vector<const KernelSet*> all_sets() {
  std::vector<const KernelSet*> sets;
  for (const KernelSet& set : kernel_sets()) sets.push_back(&set);
  return sets;
}
INSTANTIATE_TEST_SUITE_P(All, Conversions, testing::ValuesIn(all_sets()),
                         [](const auto& test) { return std::string(test.param->name); });

}  // namespace
}  // namespace unisono::kernels

/// The reference itself against expectations worked out by hand.

#include <gtest/gtest.h>

#include <bit>
#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/kernels.h"

namespace unisono::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();

/// One element from each source.
template <class T>
T fold(DType dtype, ReduceOp op, const std::vector<T>& values, std::int32_t divisor = 1) {
  std::vector<const void*> src;
  for (const T& v : values) src.push_back(&v);
  T result{};
  reduce_reference({dtype, op, divisor}, &result, nullptr, src, 1);
  return result;
}
float f32(ReduceOp op, const std::vector<float>& values, std::int32_t divisor = 1) {
  return fold(DType::f32, op, values, divisor);
}
std::uint32_t bits(float f) { return std::bit_cast<std::uint32_t>(f); }

TEST(Reference, FoldsFromLeftToRight) {
  EXPECT_EQ(f32(ReduceOp::sum, {1e8f, 1.0f, -1e8f}), 0.0f);  // 1e8 + 1 rounds to 1e8
  EXPECT_EQ(f32(ReduceOp::sum, {1e8f, -1e8f, 1.0f}), 1.0f);
  EXPECT_EQ(f32(ReduceOp::product, {1e30f, 1e-30f, 1e30f}), 1e30f * 1e-30f * 1e30f);
  EXPECT_EQ(f32(ReduceOp::product, {1e30f, 1e30f, 1e-30f}), kInf);
}

TEST(Reference, DividesTrulyAndOnce) {
  EXPECT_EQ(f32(ReduceOp::avg, {1.0f, 1.0f, 0.0f}, 3), 2.0f / 3.0f);
  EXPECT_EQ(f32(ReduceOp::sum, {10.0f}, 7), 10.0f / 7.0f);
  EXPECT_EQ(f32(ReduceOp::avg, {10.0f}, 1), 10.0f);
  EXPECT_EQ(f32(ReduceOp::max, {10.0f}, 7), 10.0f) << "only sums are divided";
  EXPECT_EQ(fold<std::int32_t>(DType::i32, ReduceOp::sum, {10}, 7), 10) << "sums of integers are not divided";
}

TEST(Reference, AveragesOfIntegersAreTruncated) {
  EXPECT_EQ(fold<std::int32_t>(DType::i32, ReduceOp::avg, {-1, -2}, 2), -1);
  EXPECT_EQ(fold<std::int32_t>(DType::i32, ReduceOp::avg, {1, 2}, 2), 1);
  EXPECT_EQ(fold<std::int32_t>(DType::i32, ReduceOp::avg, {1, 2}, 1), 3) << "a partial sum";
  EXPECT_EQ(fold<std::int64_t>(DType::i64, ReduceOp::avg, {INT64_MIN, 0, 0}, 3), INT64_MIN / 3);
  EXPECT_EQ(fold<std::uint64_t>(DType::u64, ReduceOp::avg, {UINT64_MAX, 0}, 2), UINT64_MAX / 2);
  EXPECT_EQ(fold<std::int8_t>(DType::i8, ReduceOp::avg, {100, 100}, 2), -28) << "the sum wraps";
  EXPECT_EQ(fold<std::int8_t>(DType::i8, ReduceOp::avg, {-128}, 128), -1) << "128 is no i8";
  EXPECT_EQ(fold<std::int8_t>(DType::i8, ReduceOp::avg, {127}, 200), 0);
  EXPECT_EQ(fold<std::uint8_t>(DType::u8, ReduceOp::avg, {255}, 256), 0);
}

TEST(Reference, ResultsHaveOneNan) {
  for (const std::uint32_t payload : {0x7f800001u, 0xff800001u, 0x7fc12345u, 0xffffffffu}) {
    const auto nan = std::bit_cast<float>(payload);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::product, ReduceOp::min, ReduceOp::max}) {
      EXPECT_EQ(bits(f32(op, {nan})), 0x7fc00000u);
      EXPECT_EQ(bits(f32(op, {nan, 1.0f, kInf})), 0x7fc00000u);
      EXPECT_EQ(bits(f32(op, {1.0f, nan, -kInf})), 0x7fc00000u);
      EXPECT_EQ(bits(f32(op, {1.0f, -kInf, nan})), 0x7fc00000u);
    }
  }
  EXPECT_EQ(bits(f32(ReduceOp::sum, {kInf, -kInf})), 0x7fc00000u);
  EXPECT_EQ(bits(f32(ReduceOp::product, {0.0f, kInf})), 0x7fc00000u);
  EXPECT_EQ(fold<std::uint16_t>(DType::f16, ReduceOp::sum, {0xfc01}), 0x7e00);
  EXPECT_EQ(fold<std::uint16_t>(DType::bf16, ReduceOp::min, {0xff81, 0}), 0x7fc0);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(fold<double>(DType::f64, ReduceOp::sum, {-static_cast<double>(kNan)})),
            0x7ff8000000000000u);
}

TEST(Reference, MinimumAndMaximumOrderZeros) {
  EXPECT_EQ(bits(f32(ReduceOp::min, {0.0f, -0.0f})), bits(-0.0f));
  EXPECT_EQ(bits(f32(ReduceOp::min, {-0.0f, 0.0f})), bits(-0.0f));
  EXPECT_EQ(bits(f32(ReduceOp::max, {0.0f, -0.0f})), bits(0.0f));
  EXPECT_EQ(bits(f32(ReduceOp::max, {-0.0f, 0.0f})), bits(0.0f));
  EXPECT_EQ(f32(ReduceOp::min, {kInf, 3.0f, -kInf}), -kInf);
  EXPECT_EQ(f32(ReduceOp::max, {-kInf, 3.0f}), 3.0f);
  EXPECT_EQ(f32(ReduceOp::min, {kDenormal, 0.0f}), 0.0f);
  EXPECT_EQ(f32(ReduceOp::max, {kDenormal, 0.0f}), kDenormal) << "denormals are not flushed";
}

TEST(Reference, SumsKeepZerosAndDenormals) {
  EXPECT_EQ(bits(f32(ReduceOp::sum, {-0.0f, -0.0f})), bits(-0.0f));
  EXPECT_EQ(bits(f32(ReduceOp::sum, {-0.0f, 0.0f})), bits(0.0f));
  EXPECT_EQ(f32(ReduceOp::sum, {kDenormal, kDenormal}), 2 * kDenormal);
  EXPECT_EQ(f32(ReduceOp::sum, {kInf, 1.0f}), kInf);
}

TEST(Reference, HalvesAccumulateInF32) {
  // 2048 + 1 + 1 in f16 arithmetic stays 2048, as the spacing is 2 there and ties go to even; in f32 it is 2050.
  const std::vector<std::uint16_t> f16 = {f32_to_f16(2048), f32_to_f16(1), f32_to_f16(1)};
  EXPECT_EQ(fold<std::uint16_t>(DType::f16, ReduceOp::sum, f16), f32_to_f16(2050));
  const std::vector<std::uint16_t> bf16 = {f32_to_bf16(256), f32_to_bf16(1), f32_to_bf16(1)};
  EXPECT_EQ(fold<std::uint16_t>(DType::bf16, ReduceOp::sum, bf16), f32_to_bf16(258));
  // 65504 + 65504 overflows f16, its mean does not.
  EXPECT_EQ(fold<std::uint16_t>(DType::f16, ReduceOp::sum, {0x7bff, 0x7bff}), 0x7c00);
  EXPECT_EQ(fold<std::uint16_t>(DType::f16, ReduceOp::avg, {0x7bff, 0x7bff}, 2), 0x7bff);
  EXPECT_EQ(fold<std::uint16_t>(DType::f16, ReduceOp::sum, {0x0001, 0x0001}), 0x0002) << "denormals";
}

TEST(Reference, IntegersWrap) {
  EXPECT_EQ(fold<std::int8_t>(DType::i8, ReduceOp::sum, {127, 1}), -128);
  EXPECT_EQ(fold<std::uint8_t>(DType::u8, ReduceOp::sum, {255, 2}), 1);
  EXPECT_EQ(fold<std::int32_t>(DType::i32, ReduceOp::product, {1 << 30, 4}), 0);
  EXPECT_EQ(fold<std::uint16_t>(DType::u16, ReduceOp::product, {65535, 65535}), 1);
  EXPECT_EQ(fold<std::int64_t>(DType::i64, ReduceOp::sum, {INT64_MAX, 1}), INT64_MIN);
  EXPECT_EQ(fold<std::uint64_t>(DType::u64, ReduceOp::product, {UINT64_MAX, UINT64_MAX}), 1u);
}

TEST(Reference, IntegersCompareByTheirSign) {
  EXPECT_EQ(fold<std::int8_t>(DType::i8, ReduceOp::min, {1, -1}), -1);
  EXPECT_EQ(fold<std::uint8_t>(DType::u8, ReduceOp::min, {1, 255}), 1);
  EXPECT_EQ(fold<std::int64_t>(DType::i64, ReduceOp::max, {INT64_MIN, -5}), -5);
  EXPECT_EQ(fold<std::uint64_t>(DType::u64, ReduceOp::max, {UINT64_MAX, 5}), UINT64_MAX);
}

TEST(Reference, BitsOfIntegers) {
  EXPECT_EQ(fold<std::uint16_t>(DType::u16, ReduceOp::band, {0xff00, 0x0ff0}), 0x0f00);
  EXPECT_EQ(fold<std::uint16_t>(DType::u16, ReduceOp::bor, {0xff00, 0x0ff0}), 0xfff0);
  EXPECT_EQ(fold<std::uint16_t>(DType::u16, ReduceOp::bxor, {0xff00, 0x0ff0}), 0xf0f0);
  EXPECT_EQ(fold<std::int32_t>(DType::i32, ReduceOp::bxor, {-1, 1}), -2);
}

TEST(Reference, ComplexNumbers) {
  using C = std::complex<float>;
  EXPECT_EQ(fold<C>(DType::c64, ReduceOp::product, {{1, 2}, {3, 4}}), C(-5, 10));
  EXPECT_EQ(fold<C>(DType::c64, ReduceOp::product, {{0, 1}, {0, 1}, {0, 1}}), C(0, -1));
  EXPECT_EQ(fold<C>(DType::c64, ReduceOp::sum, {{1, 2}, {3, 4}}), C(4, 6));
  EXPECT_EQ(fold<C>(DType::c64, ReduceOp::avg, {{1, 2}, {3, 4}}, 2), C(2, 3));
  using Z = std::complex<double>;
  EXPECT_EQ(fold<Z>(DType::c128, ReduceOp::product, {{1e200, 1}, {1e-200, 1e-200}}), Z(1 - 1e-200, 1 + 1e-200));
  const C endless = fold<C>(DType::c64, ReduceOp::product, {{kInf, 0}, {1, 0}});
  EXPECT_EQ(endless.real(), kInf);
  EXPECT_EQ(bits(endless.imag()), bits(kNan)) << "infinity times zero: as the formula says";
}

TEST(Reference, BooleansAreZeroOrOne) {
  using B = std::vector<std::uint8_t>;
  const auto boolean = [](ReduceOp op, const B& values) { return fold<std::uint8_t>(DType::boolean, op, values); };
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::bor}) {
    EXPECT_EQ(boolean(op, {0, 200}), 1);
    EXPECT_EQ(boolean(op, {2, 1}), 1);
    EXPECT_EQ(boolean(op, {0, 0}), 0);
  }
  for (const ReduceOp op : {ReduceOp::product, ReduceOp::min, ReduceOp::band}) {
    EXPECT_EQ(boolean(op, {2, 1}), 1) << "2 and 1 share no bit, but both are true";
    EXPECT_EQ(boolean(op, {2, 0}), 0);
  }
  EXPECT_EQ(boolean(ReduceOp::bxor, {2, 1}), 0);
  EXPECT_EQ(boolean(ReduceOp::bxor, {2, 0}), 1);
  EXPECT_EQ(boolean(ReduceOp::bxor, {3, 3, 4}), 1);
  EXPECT_EQ(boolean(ReduceOp::sum, {128}), 1) << "one source is normalised too";
}

TEST(Reference, WritesBothDestinations) {
  const float a[2] = {1, 2}, b[2] = {10, 20};
  const void* src[] = {a, b};
  float x[2] = {}, y[2] = {};
  reduce_reference({}, x, y, src, 2);
  EXPECT_EQ(x[0], 11);
  EXPECT_EQ(x[1], 22);
  EXPECT_EQ(y[0], 11);
  EXPECT_EQ(y[1], 22);
}

}  // namespace
}  // namespace unisono::kernels

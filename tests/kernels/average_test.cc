/// Averages of integers by each set of kernels, against the reference and against 64-bit division.

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/kernel_set.h"
#include "kernels/reference.h"

namespace unisono::kernels {
namespace {

/// Quotients just below, at and just above each multiple of the divisor, and the ends of the type.
template <class T>
void expect_averages(DType dtype) {
  for (const std::int32_t divisor : {1, 2, 3, 7, 127, 128, 200, 255, 256, 4096, 65535, 1 << 24}) {
    std::vector<T> x{0, std::numeric_limits<T>::max(), std::numeric_limits<T>::min()};
    for (std::uint64_t i = 0; i < 3000; i++) {
      const std::uint64_t spread = i * 0x9e3779b97f4a7c15u;
      const auto multiple = static_cast<T>(spread) / static_cast<std::int64_t>(divisor) * divisor;
      for (const int step : {-1, 0, 1}) x.push_back(static_cast<T>(multiple + step));
    }
    std::vector<T> got(x.size()), expected(x.size()), other(x.rbegin(), x.rend());
    const void* src[] = {x.data(), other.data()};
    reduce_reference({dtype, ReduceOp::avg, divisor}, expected.data(), nullptr, src, x.size());
    for (const KernelSet& set : kernel_sets()) {
      set.reduce({dtype, ReduceOp::avg, divisor}, got.data(), nullptr, src, x.size());
      ASSERT_EQ(got, expected) << set.name << " " << name_of(dtype) << " / " << divisor;
      set.reduce({dtype, ReduceOp::avg, divisor}, got.data(), nullptr, std::span(src, 1), x.size());
      for (std::size_t i = 0; i < x.size(); i++) {
        using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
        ASSERT_EQ(got[i], static_cast<T>(static_cast<Wide>(x[i]) / static_cast<Wide>(divisor)))
            << set.name << " " << name_of(dtype) << ": " << +x[i] << " / " << divisor;
      }
    }
  }
}

TEST(SetsAverage, OfIntegersAreTruncated) {
  expect_averages<std::int8_t>(DType::i8);
  expect_averages<std::int16_t>(DType::i16);
  expect_averages<std::int32_t>(DType::i32);
  expect_averages<std::int64_t>(DType::i64);
  expect_averages<std::uint8_t>(DType::u8);
  expect_averages<std::uint16_t>(DType::u16);
  expect_averages<std::uint32_t>(DType::u32);
  expect_averages<std::uint64_t>(DType::u64);
}

}  // namespace
}  // namespace unisono::kernels

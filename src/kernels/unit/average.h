// Averages of integers: the sum, which wraps, divided once; the quotient is truncated towards zero,
// as NCCL's.
#pragma once

#include "kernels/unit/table.h"
#include "kernels/unit/vec.h"

namespace unisono::kernels::UNISONO_UNIT {
namespace {

/// For each width the unsigned integer, which wraps, and a type to divide in: floating-point
/// division is exact once truncated, as a quotient by a number of ranks (at most 2^24) lies further
/// below the next integer than it is rounded. Compilers make vectors of it; of integer division
/// they do not.
template <size_t kSize>
struct Width;
template <>
struct Width<1> {
  using Unsigned = uint8_t;
  using Dividend = float;
};
template <>
struct Width<2> {
  using Unsigned = uint16_t;
  using Dividend = float;
};
template <>
struct Width<4> {
  using Unsigned = uint32_t;
  using Dividend = double;
};
template <>
struct Width<8> {
  using Unsigned = uint64_t;
};

template <class T>
UNISONO_INLINE T quotient(typename Width<sizeof(T)>::Unsigned sum, int32_t divisor) {
  const T value = static_cast<T>(sum);
  if constexpr (sizeof(T) == 8) {
    return value / static_cast<T>(divisor);
  } else {
    using Dividend = typename Width<sizeof(T)>::Dividend;
    return static_cast<T>(static_cast<Dividend>(value) / static_cast<Dividend>(divisor));
  }
}

/// Block by block, so that what is divided is in the first cache still. T: signed or unsigned,
/// which matters here.
template <class T>
void reduce_average(void* const* dst, size_t dsts, const void* const* src, size_t k, size_t count, int32_t divisor,
                    uint32_t, bool) noexcept {
  using U = typename Width<sizeof(T)>::Unsigned;
  typedef U Loose __attribute__((aligned(1), may_alias));  // operands have any alignment
  constexpr size_t kBlock = 4096 / sizeof(T);
  alignas(kWidth) U sums[kBlock];
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t n = count - begin < kBlock ? count - begin : kBlock;
    __builtin_memcpy(sums, static_cast<const Loose*>(src[0]) + begin, n * sizeof(T));
    for (size_t q = 1; q < k; q++) {
      const Loose* from = static_cast<const Loose*>(src[q]) + begin;
      for (size_t i = 0; i < n; i++) sums[i] = static_cast<U>(sums[i] + from[i]);
    }
    if (divisor > 1)
      for (size_t i = 0; i < n; i++) sums[i] = static_cast<U>(quotient<T>(sums[i], divisor));
    for (size_t j = 0; j < dsts; j++) __builtin_memcpy(static_cast<Loose*>(dst[j]) + begin, sums, n * sizeof(T));
  }
}

}  // namespace
}  // namespace unisono::kernels::UNISONO_UNIT

// Complex numbers: real part, then imaginary part. Sums are sums of twice as many floats; products
// have their own loop.
#pragma once

#include "kernels/unit/fold.h"
#include "kernels/unit/table.h"

namespace unisono::kernels::UNISONO_UNIT {
namespace {

/// E: the element type of a part.
template <class E>
void reduce_complex_sum(void* const* dst, size_t dsts, const void* const* src, size_t k, size_t count, int32_t divisor,
                        uint32_t around, bool far) noexcept {
  reduce_sum<E>(dst, dsts, src, k, 2 * count, divisor, around, far);
}

/// Block by block, with the parts in arrays of their own: compilers make vectors of that. By the
/// schoolbook formula, as NumPy's and PyTorch's products; C's way to save infinities from NaN is
/// not taken.
template <class T>
void reduce_complex_product(void* const* dst, size_t dsts, const void* const* src, size_t k, size_t count, int32_t,
                            uint32_t, bool) noexcept {
  typedef T Loose __attribute__((aligned(1), may_alias));  // operands have any alignment
  constexpr size_t kChunk = 2048 / sizeof(T);
  alignas(kWidth) T re[kChunk], im[kChunk];
  constexpr T kNan = static_cast<T>(__builtin_nan(""));
  for (size_t begin = 0; begin < count; begin += kChunk) {
    const size_t n = count - begin < kChunk ? count - begin : kChunk;
    const Loose* first = static_cast<const Loose*>(src[0]) + 2 * begin;
    for (size_t i = 0; i < n; i++) re[i] = first[2 * i], im[i] = first[2 * i + 1];
    for (size_t q = 1; q < k; q++) {
      const Loose* from = static_cast<const Loose*>(src[q]) + 2 * begin;
      for (size_t i = 0; i < n; i++) {
        const T a = re[i], b = im[i], c = from[2 * i], d = from[2 * i + 1];
        re[i] = a * c - b * d;
        im[i] = a * d + b * c;
      }
    }
    for (size_t i = 0; i < n; i++) {  // the one NaN, see kernels.h
      re[i] = re[i] == re[i] ? re[i] : kNan;
      im[i] = im[i] == im[i] ? im[i] : kNan;
    }
    for (size_t j = 0; j < dsts; j++) {
      Loose* to = static_cast<Loose*>(dst[j]) + 2 * begin;
      for (size_t i = 0; i < n; i++) to[2 * i] = re[i], to[2 * i + 1] = im[i];
    }
  }
}

}  // namespace
}  // namespace unisono::kernels::UNISONO_UNIT

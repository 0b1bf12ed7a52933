#pragma once
/// Reduction and copy kernels: k-ary, vectorised, chosen at run time from what the processor has (base x86-64-v2, then
/// AVX2, then AVX-512; NEON, with BF16 where there is, or scalar elsewhere), each tested against the scalar reference beside it.

#include <cstddef>
#include <cstdint>
#include <span>

#include "unisono/types.hpp"

namespace unisono::kernels {

/// dst[i] = (src[0][i] op src[1][i] op ... op src[k-1][i]) [/ divisor], for i < count, and the same into `dst2` when
/// that is not null.
///
/// The fold goes from left to right for every element, so the bits do not depend on count, alignment or processor. f16
/// and bf16 are widened to f32 once, folded there, divided there, and rounded (to nearest even) once.
/// - avg folds as sum. Sums and averages of floating types are divided by `divisor` where it is greater than 1, and so
///   are averages of integers, whose quotient is truncated towards zero; all else ignores it. The division is a true one.
/// - min and max are IEEE 754-2019 minimum and maximum: they propagate NaN and order -0 before +0.
/// - A result that is NaN is always the positive quiet NaN without payload, whatever op and k: which payload survives
/// an
///   addition differs between processors and compilers, and the bits of a result must not.
/// - A complex number is reduced part by part, but for products: (a+bi)(c+di) is (ac-bd) +
/// (ad+bc)i, as it is written.
/// - Integers wrap.
/// - boolean: sum, max and bor are "or"; product, min and band are "and"; bxor is "xor". Any byte but 0 is true;
/// results
///   are 0 or 1.
/// Requires k >= 1 and supports(op, dtype). dst and dst2 may each be equal to a source, but must not partly overlap
/// one. Any alignment. Thread-safety: pure; any thread.
struct Reduce {
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  std::int32_t divisor = 1;
  /// Hints. Bit j: destination j is no source, is not read soon, and is part of something larger than the caches; bit 31: so
  /// are all destinations from 31 on.
  std::uint32_t around = 0;
  bool far = false;  ///< what is read or written is part of something larger than the caches
};
void reduce(const Reduce& what, void* dst, void* dst2, std::span<const void* const> src, std::size_t count) noexcept;

/// The same into every one of `dst` (at least one), in one pass: sources are read once, the result is stored from registers.
void reduce(const Reduce& what, std::span<void* const> dst, std::span<const void* const> src,
            std::size_t count) noexcept;

/// The same by plain loops, one element at a time: the reference that reduce() is tested against.
void reduce_reference(const Reduce& what, void* dst, void* dst2, std::span<const void* const> src,
                      std::size_t count) noexcept;
void reduce_reference(const Reduce& what, std::span<void* const> dst, std::span<const void* const> src,
                      std::size_t count) noexcept;

/// memcpy. `around` hints that src comes from memory, and that dst is not read soon and is larger than the caches: it may bypass them. Long ones then go
/// from front to back, or at several places at once where `far`: which of the two is faster depends on the machine.
void copy(void* dst, const void* src, std::size_t bytes, bool around = false, bool far = false) noexcept;

/// copy() from what another core has written just now, and writes again and again, or to what another one has; `around` is about dst only. How it is read tells how long that core's next stores take (copy.cc).
void fetch(void* dst, const void* src, std::size_t bytes, bool around = false) noexcept;

/// Elements of `half`, which is f16 or bf16, as f32, and back, rounded to nearest even, as reduce() does it. No NaN but the
/// one of reduce() need survive. `dst` and `src` have `count` elements each, at any alignment, and do not overlap.
void widen(void* dst, const void* src, DType half, std::size_t count) noexcept;
void narrow(void* dst, const void* src, DType half, std::size_t count) noexcept;

/// Which set is in use: "avx512fp16", "avx512", "avx2", "sse4", "neon", "scalar". UNISONO_KERNELS=NAME forces one that the processor
/// has.
const char* kernel_set() noexcept;

/// Scalar conversions, also used by tests and bindings.
float f16_to_f32(std::uint16_t) noexcept;
std::uint16_t f32_to_f16(float) noexcept;
float bf16_to_f32(std::uint16_t) noexcept;
std::uint16_t f32_to_bf16(float) noexcept;

}  // namespace unisono::kernels

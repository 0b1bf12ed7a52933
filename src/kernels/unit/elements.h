// Element types: how each lies in memory (Raw<kRaw>) and in which vector it is computed. f16 and bf16 are computed as
// f32.
#pragma once

#include "kernels/unit/halves.h"
#include "kernels/unit/vec.h"

namespace unisono::kernels::UNISONO_UNIT {
namespace {

/// Computed as it is stored.
template <class T>
struct Plain {
  using V = Vec<T>;
  using Lane = T;  ///< of which all() makes a vector
  static constexpr size_t kSize = sizeof(T);
  static constexpr size_t kRaw = kWidth;
  static UNISONO_INLINE V all(T value) { return V{} + value; }
  static UNISONO_INLINE V unpack(Raw<kRaw> r) { return bits<V>(r); }
  static UNISONO_INLINE Raw<kRaw> pack(V v) { return bits<Raw<kRaw>>(v); }
};

using U32 = Vec<uint32_t>;
using U16 = Vec<uint16_t, kWidth / 2>;
using F32 = Vec<float>;

struct Bf16 {
  using V = Halves;
  using Lane = float;
  static constexpr size_t kSize = 2;
  static constexpr size_t kRaw = kWidth;
  static UNISONO_INLINE V all(float value) { return {F32{} + value, F32{} + value}; }
  static UNISONO_INLINE V unpack(Raw<kRaw> r) {
    const auto pair = bits<U32>(r);
    return {bits<F32>(pair << 16), bits<F32>(pair & kUpper)};
  }
#if defined(__AVX512BW__)
  // To nearest even, all elements at once: what is kept of each, and what is not. A NaN, which canonical() leaves to this, is one by what is kept: no operation on
  // bf16s makes others.
  static UNISONO_INLINE Raw<kRaw> pack(V v) {
    constexpr __mmask32 kOdd = 0xaaaaaaaa;
    const auto even = bits<U32>(v.even), odd = bits<U32>(v.odd);
    const __m512i kept = _mm512_mask_mov_epi16(bits<__m512i>(even >> 16), kOdd, bits<__m512i>(odd));
    const __m512i rest = _mm512_mask_mov_epi16(bits<__m512i>(even), kOdd, bits<__m512i>(odd << 16));
    const auto last_bit = bits<Words>(kept) & 1;
    const __mmask32 up = _mm512_cmpgt_epu16_mask(bits<__m512i>(bits<Words>(rest) | last_bit), words(0x8000));
    const __mmask32 nan = _mm512_cmpgt_epu16_mask(bits<__m512i>(bits<Words>(kept) << 1), words(0xff00));
    const __m512i rounded = _mm512_mask_add_epi16(kept, up, kept, words(1));
    return bits<Raw<kRaw>>(_mm512_mask_mov_epi16(rounded, nan, words(0x7fc0)));
  }

 private:
  using Words = Vec<uint16_t>;
  static UNISONO_INLINE __m512i words(uint16_t each) { return bits<__m512i>(Words{} + each); }
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
  static UNISONO_INLINE Raw<kRaw> pack(V v) {
    const auto even = bits<uint16x4_t>(vcvt_bf16_f32(bits<float32x4_t>(v.even)));
    const auto odd = bits<uint16x4_t>(vcvt_bf16_f32(bits<float32x4_t>(v.odd)));
    return bits<Raw<kRaw>>(vcombine_u16(vzip1_u16(even, odd), vzip2_u16(even, odd)));
  }
#else
  static UNISONO_INLINE Raw<kRaw> pack(V v) {
    return bits<Raw<kRaw>>((rounded(bits<U32>(v.even)) >> 16) | (rounded(bits<U32>(v.odd)) & kUpper));
  }

 private:
  /// To nearest even, in the upper half. A NaN must be quiet with its upper payload bit set, as canonical() makes it: then
  /// adding cannot carry into the exponent.
  static UNISONO_INLINE U32 rounded(U32 u) { return u + 0x7fff + ((u >> 16) & 1); }
#endif
  static constexpr uint32_t kUpper = 0xffff0000;
};

struct F16 {
  using V = F32;
  using Lane = float;
  static constexpr size_t kSize = 2;
  static constexpr size_t kRaw = kWidth / 2;
  static UNISONO_INLINE V all(float value) { return V{} + value; }
#if defined(__AVX512F__)
  // With a mask of all lanes: GCC 12 warns inside its own header about the forms without one. The instructions are the
  // same.
  static UNISONO_INLINE V unpack(Raw<kRaw> r) { return bits<V>(_mm512_maskz_cvtph_ps(0xffff, bits<__m256i>(r))); }
  static UNISONO_INLINE Raw<kRaw> pack(V v) {
    return bits<Raw<kRaw>>(_mm512_maskz_cvtps_ph(0xffff, bits<__m512>(v), _MM_FROUND_TO_NEAREST_INT));
  }
#elif defined(__F16C__)
  static UNISONO_INLINE V unpack(Raw<kRaw> r) { return bits<V>(_mm256_cvtph_ps(bits<__m128i>(r))); }
  static UNISONO_INLINE Raw<kRaw> pack(V v) {
    return bits<Raw<kRaw>>(_mm256_cvtps_ph(bits<__m256>(v), _MM_FROUND_TO_NEAREST_INT));
  }
#elif defined(__aarch64__)
  static UNISONO_INLINE V unpack(Raw<kRaw> r) { return bits<V>(vcvt_f32_f16(bits<float16x4_t>(r))); }
  static UNISONO_INLINE Raw<kRaw> pack(V v) { return bits<Raw<kRaw>>(vcvt_f16_f32(bits<float32x4_t>(v))); }
#else
  // Both ways with normal operands only, so that a thread which flushes denormals computes the same.
  static UNISONO_INLINE V unpack(Raw<kRaw> r) {
    const U32 h = __builtin_convertvector(bits<U16>(r), U32);
    const U32 exponent = h & 0x7c00;
    const U32 shifted = ((h & 0x7fff) << 13) + ((127 - 15) << 23);
    const U32 denormal = bits<U32>(bits<F32>(shifted + (1 << 23)) - 0x1p-14f);
    const U32 special = shifted + ((128 - 16) << 23);
    const U32 magnitude = exponent == 0 ? denormal : (exponent == 0x7c00 ? special : shifted);
    return bits<V>(magnitude | ((h & 0x8000) << 16));
  }
  static UNISONO_INLINE Raw<kRaw> pack(V v) {
    const U32 u = bits<U32>(v);
    const U32 a = u & 0x7fffffff;
    const U32 normal = (a - ((127 - 15) << 23) + 0xfff + ((a >> 13) & 1)) >> 13;
    // Adding 0.5 aligns the last bit of an f16 denormal with the last bit of the sum, which is then rounded to even.
    const U32 denormal = bits<U32>(bits<F32>(a) + 0.5f) - bits<U32>(F32{} + 0.5f);
    const U32 infinite = U32{} + 0x7c00;
    const U32 nan = 0x7e00 | ((a >> 13) & 0x3ff);
    const U32 finite = a < (113u << 23) ? denormal : (a < (143u << 23) ? normal : infinite);
    const U32 magnitude = a > 0x7f800000 ? nan : finite;
    return bits<Raw<kRaw>>(__builtin_convertvector(magnitude | ((u >> 16) & 0x8000), U16));
  }
#endif
};

/// One byte, zero or not zero; folded by operations of their own.
using Bool = Plain<uint8_t>;

}  // namespace
}  // namespace unisono::kernels::UNISONO_UNIT

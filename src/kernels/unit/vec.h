// Vectors of one width as GCC vector extensions, and their loads and stores at any alignment.
// Included by unit.cc alone, which defines UNISONO_UNIT, the namespace of this unit.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__AVX2__) || defined(__F16C__)
#include <immintrin.h>
#endif

#define UNISONO_INLINE inline __attribute__((always_inline))

namespace unisono::kernels::UNISONO_UNIT {
namespace {

#if defined(__AVX512F__)
constexpr size_t kWidth = 64;
#elif defined(__AVX2__)
constexpr size_t kWidth = 32;
#else
constexpr size_t kWidth = 16;
#endif

/// `N` bytes of elements of type T.
template <class T, size_t N = kWidth>
struct VecOf {
  typedef T Type __attribute__((vector_size(N)));
};
template <class T, size_t N = kWidth>
using Vec = typename VecOf<T, N>::Type;

/// Bytes as they lie in memory.
template <size_t N>
using Raw = Vec<uint8_t, N>;

template <class To, class From>
UNISONO_INLINE To bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

template <size_t N>
UNISONO_INLINE Raw<N> load(const char* p) {
  Raw<N> v;
  __builtin_memcpy(&v, p, N);
  return v;
}
template <size_t N>
UNISONO_INLINE void store(char* p, Raw<N> v) {
  __builtin_memcpy(p, &v, N);
}

/// The first `n` < N bytes; the rest is zero. Nothing behind them is touched.
template <size_t N>
UNISONO_INLINE Raw<N> load_part(const char* p, size_t n) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (N == 64) return bits<Raw<N>>(_mm512_maskz_loadu_epi8((uint64_t{1} << n) - 1, p));
  if constexpr (N == 32) return bits<Raw<N>>(_mm256_maskz_loadu_epi8((uint32_t{1} << n) - 1, p));
#endif
  char buffer[N] = {};
  char* to = buffer;
  auto take = [&](auto bytes) {
    if ((n & sizeof(bytes)) == 0) return;
    __builtin_memcpy(to, p, sizeof(bytes));
    to += sizeof(bytes);
    p += sizeof(bytes);
  };
  if constexpr (N > 32) take(Raw<32>{});
  if constexpr (N > 16) take(Raw<16>{});
  if constexpr (N > 8) take(uint64_t{});
  take(uint32_t{});
  take(uint16_t{});
  take(uint8_t{});
  return load<N>(buffer);
}
template <size_t N>
UNISONO_INLINE void store_part(char* p, Raw<N> v, size_t n) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (N == 64) return _mm512_mask_storeu_epi8(p, (uint64_t{1} << n) - 1, bits<__m512i>(v));
  if constexpr (N == 32) return _mm256_mask_storeu_epi8(p, (uint32_t{1} << n) - 1, bits<__m256i>(v));
#endif
  char buffer[N];
  store<N>(buffer, v);
  const char* from = buffer;
  auto give = [&](auto bytes) {
    if ((n & sizeof(bytes)) == 0) return;
    __builtin_memcpy(p, from, sizeof(bytes));
    from += sizeof(bytes);
    p += sizeof(bytes);
  };
  if constexpr (N > 32) give(Raw<32>{});
  if constexpr (N > 16) give(Raw<16>{});
  if constexpr (N > 8) give(uint64_t{});
  give(uint32_t{});
  give(uint16_t{});
  give(uint8_t{});
}

}  // namespace
}  // namespace unisono::kernels::UNISONO_UNIT

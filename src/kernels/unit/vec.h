// Vectors of one width as GCC vector extensions, and their loads and stores at any alignment.
// Included by unit.cc alone, which defines UNISONO_UNIT, the namespace of this unit.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
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

/// Half a vector and the half behind it, as one.
UNISONO_INLINE Raw<kWidth> join(Raw<kWidth / 2> low, Raw<kWidth / 2> high) {
#if !__has_builtin(__builtin_shufflevector)  // g++ 11: by way of the stack
  Raw<kWidth> whole;
  __builtin_memcpy(&whole, &low, kWidth / 2);
  __builtin_memcpy(reinterpret_cast<char*>(&whole) + kWidth / 2, &high, kWidth / 2);
  return whole;
#else
  using Half = Vec<uint64_t, kWidth / 2>;
  const auto a = bits<Half>(low), b = bits<Half>(high);
#if defined(__AVX512F__)
  return bits<Raw<kWidth>>(__builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7));
#elif defined(__AVX2__)
  return bits<Raw<kWidth>>(__builtin_shufflevector(a, b, 0, 1, 2, 3));
#else
  return bits<Raw<kWidth>>(__builtin_shufflevector(a, b, 0, 1));
#endif
#endif
}

/// Around the caches: what was there before need not be read. `p` is a multiple of N. Weakly ordered until stores_done().
template <size_t N>
UNISONO_INLINE void store_around(char* p, Raw<N> v) {
#if defined(__AVX512F__)
  if constexpr (N == 64) return _mm512_stream_si512(reinterpret_cast<__m512i*>(p), bits<__m512i>(v));
#endif
#if defined(__AVX2__)
  if constexpr (N == 32) return _mm256_stream_si256(reinterpret_cast<__m256i*>(p), bits<__m256i>(v));
#endif
#if defined(__SSE2__)
  if constexpr (N == 16) return _mm_stream_si128(reinterpret_cast<__m128i*>(p), bits<__m128i>(v));
#endif
  store<N>(p, v);
}
UNISONO_INLINE void stores_done() {
#if defined(__SSE2__)
  _mm_sfence();  // whoever signals that the result is there must not overtake it
#endif
}

/// `v` is computed here, not later: without it a compiler puts off what is needed later, and with it the loads.
template <class V>
UNISONO_INLINE void now([[maybe_unused]] V& v) {
#if defined(__SSE2__)
  asm volatile("" : "+v"(v));
#elif defined(__ARM_NEON)
  asm volatile("" : "+w"(v));
#endif
}

/// The line at `p` will be read soon. Of no other consequence, even where nothing is.
UNISONO_INLINE void fetch_line(const char* p) { __builtin_prefetch(p, 0, 3); }

/// The first `n` < 8 bytes at `p` as the low end of a number, and back. Machines that store the high end first are not
/// supported (the wire format is the same for all).
UNISONO_INLINE uint64_t load_word(const char* p, size_t n) {
  uint64_t word = 0;
  unsigned shift = 0;
  auto take = [&](auto piece) {
    if ((n & sizeof(piece)) == 0) return;
    __builtin_memcpy(&piece, p, sizeof(piece));
    word |= static_cast<uint64_t>(piece) << shift;
    shift += 8 * sizeof(piece);
    p += sizeof(piece);
  };
  take(uint32_t{});
  take(uint16_t{});
  take(uint8_t{});
  return word;
}
UNISONO_INLINE void store_word(char* p, uint64_t word, size_t n) {
  auto give = [&](auto piece) {
    if ((n & sizeof(piece)) == 0) return;
    piece = static_cast<decltype(piece)>(word);
    __builtin_memcpy(p, &piece, sizeof(piece));
    word >>= 8 * sizeof(piece);
    p += sizeof(piece);
  };
  give(uint32_t{});
  give(uint16_t{});
  give(uint8_t{});
}

/// The first `n` < N bytes; the rest is zero. Nothing behind them is touched. Through registers: a small buffer on the
/// stack, written in pieces and read as a whole, would stall.
template <size_t N>
UNISONO_INLINE Raw<N> load_part(const char* p, size_t n) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (N == 64) return bits<Raw<N>>(_mm512_maskz_loadu_epi8((uint64_t{1} << n) - 1, p));
  if constexpr (N == 32) return bits<Raw<N>>(_mm256_maskz_loadu_epi8((uint32_t{1} << n) - 1, p));
#else
  Vec<uint64_t, N> v{};
#pragma GCC unroll 8
  for (size_t i = 0; i < N / 8; i++) {
    if (n >= 8 * (i + 1))
      v[i] = bits<uint64_t>(load<8>(p + 8 * i));
    else if (n > 8 * i)
      v[i] = load_word(p + 8 * i, n - 8 * i);
  }
  return bits<Raw<N>>(v);
#endif
}
template <size_t N>
UNISONO_INLINE void store_part(char* p, Raw<N> v, size_t n) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (N == 64) _mm512_mask_storeu_epi8(p, (uint64_t{1} << n) - 1, bits<__m512i>(v));
  if constexpr (N == 32) _mm256_mask_storeu_epi8(p, (uint32_t{1} << n) - 1, bits<__m256i>(v));
#else
  const auto words = bits<Vec<uint64_t, N>>(v);
#pragma GCC unroll 8
  for (size_t i = 0; i < N / 8; i++) {
    if (n >= 8 * (i + 1))
      store<8>(p + 8 * i, bits<Raw<8>>(words[i]));
    else if (n > 8 * i)
      store_word(p + 8 * i, words[i], n - 8 * i);
  }
#endif
}

}  // namespace
}  // namespace unisono::kernels::UNISONO_UNIT

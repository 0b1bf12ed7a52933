// Reductions of any number of sources into any number of destinations, for one element type and operation each.
#pragma once

#include "kernels/unit/elements.h"
#include "kernels/unit/ops.h"
#include "kernels/unit/places.h"
#include "kernels/unit/table.h"
#include "kernels/unit/vec.h"

namespace unisono::kernels::UNISONO_UNIT {
namespace {

/// Which bit of a mask stands for destination j: the last one for all that are left.
UNISONO_INLINE uint32_t bit_of(size_t j) { return uint32_t{1} << (j < 31 ? j : 31); }

/// Where one call reads and writes; offsets are in bytes and the same for all.
struct Operands {
  void* const* dst;
  size_t dsts;
  const void* const* src;
  size_t k;
  uint32_t around;  ///< bit_of(j): whole fours of dst[j] are stored around the caches
  bool far;         ///< from or to memory

  /// Whether it is so many sources to so many destinations, all of them through the caches.
  UNISONO_INLINE bool is(size_t sources, size_t destinations) const {
    return around == 0 && k == sources && dsts == destinations;
  }
  UNISONO_INLINE const char* source(size_t q, size_t at) const { return static_cast<const char*>(src[q]) + at; }
  UNISONO_INLINE char* destination(size_t d, size_t at) const { return static_cast<char*>(dst[d]) + at; }
};

/// `kCount` vectors of `n` bytes to each destination.
template <size_t n, size_t kCount>
UNISONO_INLINE void store_all(const Operands& o, size_t at, const Raw<n>* results) {
  for (size_t j = 0; j < o.dsts; j++) {
    char* start = o.destination(j, at);
    if ((o.around & bit_of(j)) != 0)
      for (size_t i = 0; i < kCount; i++) store_around<n>(start + i * n, results[i]);
    else
      for (size_t i = 0; i < kCount; i++) store<n>(start + i * n, results[i]);
  }
}

/// Four vectors at a time from the sources [from, to): the loop over sources costs little beside four loads, and the
/// sums stay in registers however many sources there are, so f16 and bf16 are rounded once. `sums` holds the four
/// between two groups of sources.
template <class E, class Op, bool kFirst, bool kLast>
UNISONO_INLINE void fold_four(const Operands& o, size_t at, size_t from, size_t to, typename E::V* sums,
                              typename E::V divisor) {
  constexpr size_t n = E::kRaw;
  typename E::V a, b, c, d;
  if constexpr (kFirst) {
    const char* s = o.source(from, at);
    a = Op::first(E::unpack(load<n>(s)));
    b = Op::first(E::unpack(load<n>(s + n)));
    c = Op::first(E::unpack(load<n>(s + 2 * n)));
    d = Op::first(E::unpack(load<n>(s + 3 * n)));
  } else {
    a = sums[0], b = sums[1], c = sums[2], d = sums[3];
  }
  for (size_t q = from + (kFirst ? 1 : 0); q < to; q++) {
    const char* s = o.source(q, at);
    a = Op::fold(a, E::unpack(load<n>(s)));
    b = Op::fold(b, E::unpack(load<n>(s + n)));
    c = Op::fold(c, E::unpack(load<n>(s + 2 * n)));
    d = Op::fold(d, E::unpack(load<n>(s + 3 * n)));
  }
  if constexpr (kLast) {
    const Raw<n> results[4] = {E::pack(Op::finish(a, divisor)), E::pack(Op::finish(b, divisor)),
                               E::pack(Op::finish(c, divisor)), E::pack(Op::finish(d, divisor))};
    if constexpr (2 * n == kWidth) {
      // Whole lines: around the caches, two halves of one would go to memory by themselves when it is busy.
      const Raw<kWidth> joined[2] = {join(results[0], results[1]), join(results[2], results[3])};
      store_all<kWidth, 2>(o, at, joined);
    } else {
      store_all<n, 4>(o, at, results);
    }
  } else {
    sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
  }
}

/// Sources read side by side: more streams than this are more than a processor prefetches well.
constexpr size_t kStreams = 8;
/// Fours of vectors summed over one group of streams before the next group's turn.
constexpr size_t kBlock = 16;

/// A block of kBlock fours over more than kStreams sources, group by group, with the sums in a buffer between them.
template <class E, class Op>
UNISONO_INLINE void fold_block(const Operands& o, size_t at, typename E::V divisor) {
  typename E::V sums[4 * kBlock];
  constexpr size_t n = 4 * E::kRaw;
  for (size_t i = 0; i < kBlock; i++) fold_four<E, Op, true, false>(o, at + i * n, 0, kStreams, sums + 4 * i, divisor);
  size_t q = kStreams;
  for (; o.k - q > kStreams; q += kStreams)
    for (size_t i = 0; i < kBlock; i++)
      fold_four<E, Op, false, false>(o, at + i * n, q, q + kStreams, sums + 4 * i, divisor);
  for (size_t i = 0; i < kBlock; i++) fold_four<E, Op, false, true>(o, at + i * n, q, o.k, sums + 4 * i, divisor);
}

/// One vector, or the first `bytes` of one.
template <class E, class Op>
UNISONO_INLINE void fold_one(const Operands& o, size_t at, typename E::V divisor) {
  constexpr size_t n = E::kRaw;
  auto a = Op::first(E::unpack(load<n>(o.source(0, at))));
  for (size_t q = 1; q < o.k; q++) a = Op::fold(a, E::unpack(load<n>(o.source(q, at))));
  const Raw<n> result = E::pack(Op::finish(a, divisor));
  for (size_t j = 0; j < o.dsts; j++) store<n>(o.destination(j, at), result);
}
template <class E, class Op>
UNISONO_INLINE void fold_part(const Operands& o, size_t at, size_t bytes, typename E::V divisor) {
  constexpr size_t n = E::kRaw;
  auto a = Op::first(E::unpack(load_part<n>(o.source(0, at), bytes)));
  for (size_t q = 1; q < o.k; q++) a = Op::fold(a, E::unpack(load_part<n>(o.source(q, at), bytes)));
  const Raw<n> result = E::pack(Op::finish(a, divisor));
  for (size_t j = 0; j < o.dsts; j++) store_part<n>(o.destination(j, at), result, bytes);
}

/// More streams in one direction do not gain.
constexpr size_t kMostSources = 4;

/// Stores around the caches need aligned destinations. Those in `around` that can be: as far from an aligned address as the
/// first of them is, in whole elements.
UNISONO_INLINE uint32_t around_ones(void* const* dst, size_t dsts, uint32_t around, size_t element) {
  if (around == 0) return 0;
  const auto past = [&](size_t j) { return reinterpret_cast<uintptr_t>(dst[j]) % kWidth; };
  size_t first = 0;
  while (first < dsts && ((around & bit_of(first)) == 0 || past(first) % element != 0)) first++;
  uint32_t can = 0, cannot = 0;
  for (size_t j = first; j < dsts; j++) (past(j) == past(first) ? can : cannot) |= bit_of(j);
  return around & can & ~cannot;
}

/// Bytes in front of the first aligned address of one operand.
UNISONO_INLINE size_t head_of(const void* at) { return -reinterpret_cast<uintptr_t>(at) % kWidth; }

/// What is shorter is not worth a head of its own where alignment is a matter of speed alone.
constexpr size_t kAlignedFrom = 1 << 10;

/// Bytes before those that are aligned: for stores around the caches, which need it, or if it aligns all operands at once. What malloc maps begins 16 bytes
/// behind a page on every rank, and each of its vectors would lie on two lines, to and fro. (Where stages, which are aligned, are added to such memory, a head would only move that to
/// the other operands.)
UNISONO_INLINE size_t until_aligned(const Operands& o, size_t bytes, size_t element) {
  if (o.around != 0) return head_of(o.dst[__builtin_ctz(o.around)]);
  const size_t head = head_of(o.dst[0]);
  if (bytes < kAlignedFrom || head % element != 0) return 0;
  bool alike = true;
  for (size_t j = 1; j < o.dsts; j++) alike &= head_of(o.dst[j]) == head;
  for (size_t q = 0; q < o.k; q++) alike &= head_of(o.src[q]) == head;
  return alike ? head : 0;
}

/// How long before it is read a line is asked for, in bytes, where operands come from memory: what computes much for a line (bf16) looks less far ahead by itself.
constexpr size_t kAskedAhead = 2048;

/// Two vectors, read operand by operand, so that each has one line and the next one asked for one behind the other.
template <class E, class Op, size_t kSources, size_t kTargets>
UNISONO_INLINE void fold_pair(const char* const (&src)[kSources], char* const (&dst)[kTargets], size_t at,
                              typename E::V divisor) {
  constexpr size_t n = E::kRaw;
  auto a = Op::first(E::unpack(load<n>(src[0] + at))), b = Op::first(E::unpack(load<n>(src[0] + at + n)));
  now(a), now(b);
  for (size_t q = 1; q < kSources; q++) {
    a = Op::fold(a, E::unpack(load<n>(src[q] + at))), now(a);
    b = Op::fold(b, E::unpack(load<n>(src[q] + at + n))), now(b);
  }
  const Raw<n> results[2] = {E::pack(Op::finish(a, divisor)), E::pack(Op::finish(b, divisor))};
  for (size_t j = 0; j < kTargets; j++)
    for (size_t v = 0; v < 2; v++) store<n>(dst[j] + at + v * n, results[v]);
}

/// The pairs of fold_all(), for numbers of sources and destinations that the compiler knows: no loop over them is left. In fold_four() half of all
/// instructions are such loops', and a processor looks ahead so many instructions, not so many lines (docs/design/0003).
template <class E, class Op, size_t kSources, size_t kTargets>
UNISONO_INLINE size_t fold_fixed(const Operands& o, size_t at, size_t bytes, typename E::V divisor) {
  constexpr size_t n = E::kRaw;
  const char* src[kSources];
  char* dst[kTargets];
  for (size_t q = 0; q < kSources; q++) src[q] = o.source(q, 0);
  for (size_t j = 0; j < kTargets; j++) dst[j] = o.destination(j, 0);
  const auto four_from_memory = [&](size_t i) {
    for (size_t q = 0; q < kSources; q++)
      for (size_t line = 0; line < 4 * n; line += unit::kLine) fetch_line(src[q] + i + kAskedAhead + line);
    fold_pair<E, Op>(src, dst, i, divisor);
    fold_pair<E, Op>(src, dst, i + 2 * n, divisor);
  };
  // Nothing beyond the end is asked for: another core may write there.
  if (o.far && bytes >= at + kAskedAhead)
    at = at_several_places<4 * n, kSources <= kMostSources ? kPlaces : 1>(at, bytes - kAskedAhead, four_from_memory);
  for (; bytes - at >= 2 * n; at += 2 * n) fold_pair<E, Op>(src, dst, at, divisor);
  return at;
}

template <class Op>
constexpr bool kIsSum = false;
template <class Numbers>
constexpr bool kIsSum<Sum<Numbers>> = true;

/// fold_fixed() for sums of as many operands as it is compiled for: it makes the library larger for each, and its compilation longer. How far that came; `at` for others.
template <class E, class Op>
UNISONO_INLINE size_t fold_sums(const Operands& o, size_t at, size_t bytes, typename E::V divisor) {
  if constexpr (kIsSum<Op>) {
    if (o.is(2, 1)) return fold_fixed<E, Op, 2, 1>(o, at, bytes, divisor);
    if (o.is(2, 2)) return fold_fixed<E, Op, 2, 2>(o, at, bytes, divisor);
    if (o.is(4, 4)) return fold_fixed<E, Op, 4, 4>(o, at, bytes, divisor);
    if (o.is(8, 8)) return fold_fixed<E, Op, 8, 8>(o, at, bytes, divisor);
  }
  return at;
}

template <class E, class Op>
void fold_all(const Operands& o, size_t count, typename E::V divisor) noexcept {
  constexpr size_t n = E::kRaw;
  const size_t bytes = count * E::kSize;
  size_t at = until_aligned(o, bytes, E::kSize);
  if (at >= bytes) at = 0;
  size_t head = 0;
  for (; at - head >= n; head += n) fold_one<E, Op>(o, head, divisor);
  if (head < at) fold_part<E, Op>(o, head, at - head, divisor);
  at = fold_sums<E, Op>(o, at, bytes, divisor);  // behind it little is left
  if (o.k > kStreams)
    for (; bytes - at >= kBlock * 4 * n; at += kBlock * 4 * n) fold_block<E, Op>(o, at, divisor);
  else if (o.far && o.k <= kMostSources)
    at = at_several_places<4 * n>(at, bytes,
                                  [&](size_t i) { fold_four<E, Op, true, true>(o, i, 0, o.k, nullptr, divisor); });
  for (; bytes - at >= 4 * n; at += 4 * n) fold_four<E, Op, true, true>(o, at, 0, o.k, nullptr, divisor);
  for (; bytes - at >= n; at += n) fold_one<E, Op>(o, at, divisor);
  if (at < bytes) fold_part<E, Op>(o, at, bytes - at, divisor);
  if (o.around != 0) stores_done();
}

template <class E, class Op>
void reduce(void* const* dst, size_t dsts, const void* const* src, size_t k, size_t count, int32_t, uint32_t around,
            bool far) noexcept {
  const Operands o{dst, dsts, src, k, around_ones(dst, dsts, around, E::kSize), far};
  fold_all<E, Op>(o, count, typename E::V{});
}
template <class E>
void reduce_sum(void* const* dst, size_t dsts, const void* const* src, size_t k, size_t count, int32_t divisor,
                uint32_t around, bool far) noexcept {
  if (divisor <= 1) return reduce<E, Sum<Floats>>(dst, dsts, src, k, count, divisor, around, far);
  const Operands o{dst, dsts, src, k, around_ones(dst, dsts, around, E::kSize), far};
  fold_all<E, Average>(o, count, E::all(static_cast<typename E::Lane>(divisor)));
}

}  // namespace
}  // namespace unisono::kernels::UNISONO_UNIT

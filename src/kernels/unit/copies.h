// Copies by vectors: around the caches, from memory, and of what another core has just written.
#pragma once

#include "kernels/unit/places.h"
#include "kernels/unit/table.h"
#include "kernels/unit/vec.h"

namespace unisono::kernels::UNISONO_UNIT {
namespace {

#if defined(__SSE2__)
template <size_t N, size_t kVectors, bool kAround>
UNISONO_INLINE void copy_vectors(char* to, const char* from) {
  Raw<N> v[kVectors];
  for (size_t i = 0; i < kVectors; i++) v[i] = load<N>(from + i * N);
  for (size_t i = 0; i < kVectors; i++) kAround ? store_around<N>(to + i * N, v[i]) : store<N>(to + i * N, v[i]);
}

/// Four vectors to the place they come from, around the caches. With the widest stores there are: a line that one store fills need not wait in a buffer for
/// its other parts, and one core then copies half as much again as with 16 bytes a store.
constexpr size_t kFour = 4 * kWidth;
UNISONO_INLINE void copy_four(char* to, const char* from) { copy_vectors<kWidth, 4, true>(to, from); }

/// What is left of `bytes` from `at` on.
UNISONO_INLINE void copy_rest(char* to, const char* from, size_t at, size_t bytes) {
  for (; bytes - at >= kFour; at += kFour) copy_four(to + at, from + at);
  for (; at < bytes; at += unit::kLine) copy_vectors<kWidth, unit::kLine / kWidth, true>(to + at, from + at);
  stores_done();
}

/// As unit::CopyFunction.
void copy_around(char* to, const char* from, size_t lines) noexcept {
  const size_t bytes = lines * unit::kLine;
  const size_t at = at_several_places<kFour>(0, bytes, [&](size_t i) { copy_four(to + i, from + i); });
  copy_rest(to, from, at, bytes);
}

/// As unit::CopyFunction. What is to come is asked for so far ahead that memory's delay is covered whatever the processor fetches by itself, past the ends of
/// pages, too, where that stops; from front to back, which suits memory better than several places. Nothing beyond the end is asked for: another core may write there.
void copy_memory(char* to, const char* from, size_t lines) noexcept {
  constexpr size_t kAhead = 8 << 10, kLong = 8 * kAhead;
  const size_t bytes = lines * unit::kLine;
  if (bytes < kLong) return copy_around(to, from, lines);
  size_t at = 0;
  for (; bytes - at >= kAhead + kFour; at += kFour) {
    for (size_t line = 0; line < kFour; line += unit::kLine) fetch_line(from + at + kAhead + line);
    copy_four(to + at, from + at);
  }
  copy_rest(to, from, at, bytes);
}
constexpr unit::CopyFunction kCopyAround = copy_around, kCopyMemory = copy_memory;

/// As unit::CopyFunction. Up to kLong bytes are gone through at four places, or two: at one, a processor fetches ahead past the end, where another
/// core writes next. Of long ones that is a small part, and they are a stream whose next part is there already: it is read faster at one place.
/// Two loads for a line: one took up to a third longer where lines come from memory.
void fetch(char* to, const char* from, size_t lines) noexcept {
  constexpr size_t kLoad = kWidth < 32 ? kWidth : 32, kPiece = 2 * unit::kLine, kShort = 512, kLong = 64 << 10;
  const size_t bytes = lines * unit::kLine;
  const auto piece = [&](size_t i) { copy_vectors<kLoad, kPiece / kLoad, false>(to + i, from + i); };
  size_t at = 0;
  if (bytes <= kLong) {
    at = at_several_places<kPiece>(at, bytes, piece);
    at = at_several_places<kPiece, 2, kShort>(at, bytes, piece);
  }
  for (; bytes - at >= kPiece; at += kPiece) piece(at);
  if (at < bytes) copy_vectors<kLoad, unit::kLine / kLoad, false>(to + at, from + at);
}
constexpr unit::CopyFunction kFetch = fetch;
#else
constexpr unit::CopyFunction kCopyAround = nullptr, kCopyMemory = nullptr, kFetch = nullptr;
#endif

}  // namespace
}  // namespace unisono::kernels::UNISONO_UNIT

// Long operands are gone through at several places at once.
#pragma once

#include "kernels/unit/vec.h"

namespace unisono::kernels::UNISONO_UNIT {
namespace {

/// Long vectors are gone through at so many places at once: a processor fetches ahead along several streams side by side,
/// but along each only so fast, and one or two do not use what the memory gives (10.7 GB/s a core in one place, 16.6 in
/// four, where this was written).
constexpr size_t kPlaces = 4;
/// Bytes from one place to the next, and the least there must be to begin with. No power of two: the places would all fall
/// on the same sets of a cache, and three of them that are stored around the caches at the same offset of a page take ten times as long (AMD Zen 3).
constexpr size_t kFar = (16 << 10) + 1280, kNear = 4 << 10;

/// Calls piece(at) for each kPiece bytes from `at` to the result, which is at most `bytes`; the rest is too short.
template <size_t kPiece, size_t kCount = kPlaces, size_t kLeast = kNear, class Piece>
UNISONO_INLINE size_t at_several_places(size_t at, size_t bytes, Piece piece) {
  while (bytes - at >= kCount * kLeast) {
    const size_t pieces = ((bytes - at) / kCount / kPiece - 1) | 1;  // odd, for the same reason
    const size_t apart = pieces * kPiece < kFar ? pieces * kPiece : kFar;
    for (size_t i = 0; i < apart; i += kPiece)
      for (size_t place = 0; place < kCount; place++) piece(at + place * apart + i);
    at += kCount * apart;
  }
  return at;
}

}  // namespace
}  // namespace unisono::kernels::UNISONO_UNIT

// bf16 as f32, without moving an element from lane to lane: the even elements of a vector and the odd ones are two vectors.
#pragma once

#include "kernels/unit/vec.h"

namespace unisono::kernels::UNISONO_UNIT {
namespace {

struct Halves {
  Vec<float> even, odd;
};
UNISONO_INLINE void now(Halves& v) { now(v.even), now(v.odd); }
UNISONO_INLINE Halves operator+(Halves a, Halves b) { return {a.even + b.even, a.odd + b.odd}; }
UNISONO_INLINE Halves operator*(Halves a, Halves b) { return {a.even * b.even, a.odd * b.odd}; }
UNISONO_INLINE Halves operator/(Halves a, Halves b) { return {a.even / b.even, a.odd / b.odd}; }

/// An operation on vectors, on both.
template <class Op>
UNISONO_INLINE Halves fold_halves(Halves a, Halves b) {
  return {Op::fold(a.even, b.even), Op::fold(a.odd, b.odd)};
}

}  // namespace
}  // namespace unisono::kernels::UNISONO_UNIT

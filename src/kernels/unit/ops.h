// Operations on vectors. first() takes the first source, fold() adds one more on the right, finish() makes the result.
#pragma once

#include "kernels/unit/halves.h"
#include "kernels/unit/vec.h"

namespace unisono::kernels::UNISONO_UNIT {
namespace {

/// The unsigned vector beside a floating one, for its bits.
template <class V>
struct BitsOf;
template <>
struct BitsOf<Vec<float>> {
  using Type = Vec<uint32_t>;
  static constexpr uint32_t kQuietNan = 0x7fc00000;
};
template <>
struct BitsOf<Vec<double>> {
  using Type = Vec<uint64_t>;
  static constexpr uint64_t kQuietNan = 0x7ff8000000000000;
};

/// Every NaN becomes one and the same: which payload survives an addition depends on the processor and on the order in
/// which a compiler puts the operands, and the bits of a result must not.
template <class V>
UNISONO_INLINE V canonical(V v) {
  using B = typename BitsOf<V>::Type;
  return v == v ? v : bits<V>(B{} + BitsOf<V>::kQuietNan);
}

#if defined(__AVX512BW__)
UNISONO_INLINE Halves canonical(Halves v) { return v; }  // pack() does it, on both at once
#else
UNISONO_INLINE Halves canonical(Halves v) { return {canonical(v.even), canonical(v.odd)}; }
#endif

struct Integers {
  template <class V>
  static UNISONO_INLINE V first(V v) {
    return v;
  }
  template <class V>
  static UNISONO_INLINE V finish(V v, V) {
    return v;
  }
  static constexpr bool kDivides = false;
};
struct Floats {
  template <class V>
  static UNISONO_INLINE V first(V v) {
    return v;
  }
  template <class V>
  static UNISONO_INLINE V finish(V v, V) {
    return canonical(v);
  }
  static constexpr bool kDivides = false;
};

template <class Kind>
struct Sum : Kind {
  template <class V>
  static UNISONO_INLINE V fold(V a, V b) {
    return a + b;
  }
};
template <class Kind>
struct Product : Kind {
  template <class V>
  static UNISONO_INLINE V fold(V a, V b) {
    return a * b;
  }
};
/// Sum, divided once at the end: a true division, whose result is the same everywhere.
struct Average : Sum<Floats> {
  template <class V>
  static UNISONO_INLINE V finish(V v, V divisor) {
    return canonical(v / divisor);
  }
  static constexpr bool kDivides = true;
};

struct Min : Integers {
  template <class V>
  static UNISONO_INLINE V fold(V a, V b) {
    return a < b ? a : b;
  }
};
struct Max : Integers {
  template <class V>
  static UNISONO_INLINE V fold(V a, V b) {
    return a > b ? a : b;
  }
};
/// IEEE 754-2019 minimum and maximum: NaN if either is, and -0 below +0. Equal operands differ in the sign of zero at
/// most.
struct Minimum : Floats {
  template <class V>
  static UNISONO_INLINE V fold(V a, V b) {
    using B = typename BitsOf<V>::Type;
    const V less = a < b ? a : b;  // b where one of them is NaN
    const V ordered = a == b ? bits<V>(bits<B>(a) | bits<B>(b)) : less;
    return a == a ? ordered : a;
  }
  static UNISONO_INLINE Halves fold(Halves a, Halves b) { return fold_halves<Minimum>(a, b); }
};
struct Maximum : Floats {
  template <class V>
  static UNISONO_INLINE V fold(V a, V b) {
    using B = typename BitsOf<V>::Type;
    const V more = a > b ? a : b;
    const V ordered = a == b ? bits<V>(bits<B>(a) & bits<B>(b)) : more;
    return a == a ? ordered : a;
  }
  static UNISONO_INLINE Halves fold(Halves a, Halves b) { return fold_halves<Maximum>(a, b); }
};

struct And : Integers {
  template <class V>
  static UNISONO_INLINE V fold(V a, V b) {
    return a & b;
  }
};
struct Or : Integers {
  template <class V>
  static UNISONO_INLINE V fold(V a, V b) {
    return a | b;
  }
};
struct Xor : Integers {
  template <class V>
  static UNISONO_INLINE V fold(V a, V b) {
    return a ^ b;
  }
};

/// Booleans: any byte that is not zero is true; results are 0 or 1.
template <class Op>
struct Logical : Op {
  template <class V>
  static UNISONO_INLINE V truth(V v) {
    return bits<V>(v != 0) & 1;
  }
  template <class V>
  static UNISONO_INLINE V first(V v) {
    return truth(v);
  }
  template <class V>
  static UNISONO_INLINE V fold(V a, V b) {
    return Op::fold(a, truth(b));
  }
};

}  // namespace
}  // namespace unisono::kernels::UNISONO_UNIT

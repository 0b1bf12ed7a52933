// f16 and bf16 to f32 in memory, and back, element by element in their order.
#pragma once

#include "kernels/unit/elements.h"

namespace unisono::kernels::UNISONO_UNIT {
namespace {

using OrderedF16 = F16;

/// bf16 with the elements of a vector in their order, unlike Bf16, which only folds.
struct OrderedBf16 {
  static constexpr size_t kRaw = kWidth / 2;
  static UNISONO_INLINE F32 unpack(Raw<kRaw> r) { return bits<F32>(__builtin_convertvector(bits<U16>(r), U32) << 16); }
  /// To nearest even. The one NaN of reduce() stays one: its lower half is empty.
  static UNISONO_INLINE Raw<kRaw> pack(F32 v) {
    const auto u = bits<U32>(v);
    return bits<Raw<kRaw>>(__builtin_convertvector((u + 0x7fff + ((u >> 16) & 1)) >> 16, U16));
  }
};

template <class E>
void widen(char* to, const char* from, size_t count) noexcept {
  constexpr size_t kEach = kWidth / sizeof(float);
  for (; count >= kEach; count -= kEach, to += kWidth, from += E::kRaw)
    store<kWidth>(to, bits<Raw<kWidth>>(E::unpack(load<E::kRaw>(from))));
  if (count == 0) return;
  char rest[E::kRaw] = {};
  char wide[kWidth];
  __builtin_memcpy(rest, from, 2 * count);
  store<kWidth>(wide, bits<Raw<kWidth>>(E::unpack(load<E::kRaw>(rest))));
  __builtin_memcpy(to, wide, sizeof(float) * count);
}

template <class E>
void narrow(char* to, const char* from, size_t count) noexcept {
  constexpr size_t kEach = kWidth / sizeof(float);
  for (; count >= kEach; count -= kEach, to += E::kRaw, from += kWidth)
    store<E::kRaw>(to, E::pack(bits<F32>(load<kWidth>(from))));
  if (count == 0) return;
  char rest[kWidth] = {};
  char half[E::kRaw];
  __builtin_memcpy(rest, from, sizeof(float) * count);
  store<E::kRaw>(half, E::pack(bits<F32>(load<kWidth>(rest))));
  __builtin_memcpy(to, half, 2 * count);
}

}  // namespace
}  // namespace unisono::kernels::UNISONO_UNIT

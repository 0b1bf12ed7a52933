// f16 sums on processors that add f16 themselves (AVX512-FP16), in place of one function of the avx512 unit, which is used with it. As in unit.cc, everything
// but the function's address has internal linkage.

#include "kernels/unit/elements.h"
#include "kernels/unit/fold.h"
#include "kernels/unit/ops.h"
#include "kernels/unit/table.h"

namespace unisono::kernels::UNISONO_UNIT {
namespace {

/// f16 computed as it is stored. To nearest even whatever the thread has chosen, as pack() of F16 does; the processor never flushes denormals of this type.
struct Native {
  __m512h value;
};
UNISONO_INLINE Native operator+(Native a, Native b) {
  return {_mm512_add_round_ph(a.value, b.value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
UNISONO_INLINE Native canonical(Native v) {
  constexpr short kQuietNan = 0x7e00;
  const __mmask32 nan = _mm512_cmp_ph_mask(v.value, v.value, _CMP_UNORD_Q);
  return {bits<__m512h>(_mm512_mask_mov_epi16(bits<__m512i>(v.value), nan, _mm512_set1_epi16(kQuietNan)))};
}

struct NativeF16 {
  using V = Native;
  static constexpr size_t kSize = 2;
  static constexpr size_t kRaw = kWidth;
  static UNISONO_INLINE V unpack(Raw<kRaw> r) { return {bits<__m512h>(r)}; }
  static UNISONO_INLINE Raw<kRaw> pack(V v) { return bits<Raw<kRaw>>(v.value); }
};

/// The sum of two f16 is the same whether it is rounded once or to an f32 before: an f32 has two digits more than twice as many, which is enough (Figueroa,
/// "When is double rounding innocuous?", 1995). That of three is not, and an average's quotient is not a sum's.
void sum(void* const* dst, size_t dsts, const void* const* src, size_t k, size_t count, int32_t divisor,
         uint32_t around, bool far) noexcept {
  if (k == 2 && divisor <= 1) return reduce<NativeF16, Sum<Floats>>(dst, dsts, src, k, count, divisor, around, far);
  reduce_sum<F16>(dst, dsts, src, k, count, divisor, around, far);
}

}  // namespace

extern const unit::ReduceFunction kSumOfF16;
const unit::ReduceFunction kSumOfF16 = sum;

}  // namespace unisono::kernels::UNISONO_UNIT

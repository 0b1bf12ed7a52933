// The vector kernels, compiled once for each instruction set with UNISONO_UNIT as the namespace (see CMakeLists.txt
// beside kernels.h). Everything but the table has internal linkage, and no header with shared inline functions is
// included: table.h says why.

#include "kernels/unit/average.h"
#include "kernels/unit/complex.h"
#include "kernels/unit/conversions.h"
#include "kernels/unit/copies.h"
#include "kernels/unit/elements.h"
#include "kernels/unit/fold.h"
#include "kernels/unit/ops.h"
#include "kernels/unit/table.h"

namespace unisono::kernels::UNISONO_UNIT {
namespace {

using I8 = Plain<int8_t>;
using I16 = Plain<int16_t>;
using I32 = Plain<int32_t>;
using I64 = Plain<int64_t>;
using N8 = Plain<uint8_t>;
using N16 = Plain<uint16_t>;
using N32 = Plain<uint32_t>;
using N64 = Plain<uint64_t>;
using F = Plain<float>;
using D = Plain<double>;

}  // namespace

/// Rows: sum avg product min max band bor bxor. Columns: f16 bf16 f32 f64, i8-i64, u8-u64, bool,
/// c64, c128. Where the sign does not matter signed types use the unsigned kernels, which wrap.
/// Partial sums of averages (divisor 1) are sums.
extern const unit::Table kTable;
#define UNISONO_INTEGERS(OP) reduce<N8, OP>, reduce<N16, OP>, reduce<N32, OP>, reduce<N64, OP>
// NOLINTBEGIN(bugprone-macro-parentheses): it names a type
#define UNISONO_BITWISE(OP) \
  {nullptr, nullptr, nullptr, nullptr, UNISONO_INTEGERS(OP), UNISONO_INTEGERS(OP), reduce<Bool, Logical<OP>>}
// NOLINTEND(bugprone-macro-parentheses)
const unit::Table kTable = {
    {
        {reduce_sum<F16>, reduce_sum<Bf16>, reduce_sum<F>, reduce_sum<D>, UNISONO_INTEGERS(Sum<Integers>),
         UNISONO_INTEGERS(Sum<Integers>), reduce<Bool, Logical<Or>>, reduce_complex_sum<F>, reduce_complex_sum<D>},
        {reduce_sum<F16>, reduce_sum<Bf16>, reduce_sum<F>, reduce_sum<D>, reduce_average<int8_t>,
         reduce_average<int16_t>, reduce_average<int32_t>, reduce_average<int64_t>, reduce_average<uint8_t>,
         reduce_average<uint16_t>, reduce_average<uint32_t>, reduce_average<uint64_t>, nullptr, reduce_complex_sum<F>,
         reduce_complex_sum<D>},
        {reduce<F16, Product<Floats>>, reduce<Bf16, Product<Floats>>, reduce<F, Product<Floats>>,
         reduce<D, Product<Floats>>, UNISONO_INTEGERS(Product<Integers>), UNISONO_INTEGERS(Product<Integers>),
         reduce<Bool, Logical<And>>, reduce_complex_product<float>, reduce_complex_product<double>},
        {reduce<F16, Minimum>, reduce<Bf16, Minimum>, reduce<F, Minimum>, reduce<D, Minimum>, reduce<I8, Min>,
         reduce<I16, Min>, reduce<I32, Min>, reduce<I64, Min>, UNISONO_INTEGERS(Min), reduce<Bool, Logical<And>>},
        {reduce<F16, Maximum>, reduce<Bf16, Maximum>, reduce<F, Maximum>, reduce<D, Maximum>, reduce<I8, Max>,
         reduce<I16, Max>, reduce<I32, Max>, reduce<I64, Max>, UNISONO_INTEGERS(Max), reduce<Bool, Logical<Or>>},
        UNISONO_BITWISE(And),
        UNISONO_BITWISE(Or),
        UNISONO_BITWISE(Xor),
    },
    kCopyAround,
    kCopyMemory,
    kFetch,
    {widen<OrderedF16>, widen<OrderedBf16>},
    {narrow<OrderedF16>, narrow<OrderedBf16>}};

}  // namespace unisono::kernels::UNISONO_UNIT

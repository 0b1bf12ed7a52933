/// The reference: what every kernel must compute, one element at a time, written to be read. Also the set "scalar".

#include "kernels/reference.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace unisono::kernels {
namespace {

/// For each DType: how an element lies in memory (Stored), what it is computed in (Value), and the way between them.
template <class T>
struct Identity {
  using Stored = T;
  using Value = T;
  static Value widen(Stored s) { return s; }
  static Stored narrow(Value v) { return v; }
};
template <DType>
struct Element;
template <>
struct Element<DType::f32> : Identity<float> {};
template <>
struct Element<DType::f64> : Identity<double> {};
template <>
struct Element<DType::i8> : Identity<std::int8_t> {};
template <>
struct Element<DType::i16> : Identity<std::int16_t> {};
template <>
struct Element<DType::i32> : Identity<std::int32_t> {};
template <>
struct Element<DType::i64> : Identity<std::int64_t> {};
template <>
struct Element<DType::u8> : Identity<std::uint8_t> {};
template <>
struct Element<DType::u16> : Identity<std::uint16_t> {};
template <>
struct Element<DType::u32> : Identity<std::uint32_t> {};
template <>
struct Element<DType::u64> : Identity<std::uint64_t> {};
template <>
struct Element<DType::f16> {
  using Stored = std::uint16_t;
  using Value = float;
  static Value widen(Stored s) { return f16_to_f32(s); }
  static Stored narrow(Value v) { return f32_to_f16(v); }
};
template <>
struct Element<DType::bf16> {
  using Stored = std::uint16_t;
  using Value = float;
  static Value widen(Stored s) { return bf16_to_f32(s); }
  static Stored narrow(Value v) { return f32_to_bf16(v); }
};
template <>
struct Element<DType::boolean> {
  using Stored = std::uint8_t;
  using Value = bool;
  static Value widen(Stored s) { return s != 0; }
  static Stored narrow(Value v) { return v ? 1 : 0; }
};

template <class T>
struct Complex {
  T re, im;
};
template <class T>
inline constexpr bool kIsComplex = false;
template <class T>
inline constexpr bool kIsComplex<Complex<T>> = true;
template <>
struct Element<DType::c64> : Identity<Complex<float>> {};
template <>
struct Element<DType::c128> : Identity<Complex<double>> {};

template <ReduceOp op>
bool combine_logical(bool a, bool b) {
  if constexpr (op == ReduceOp::sum || op == ReduceOp::max || op == ReduceOp::bor) return a || b;
  if constexpr (op == ReduceOp::product || op == ReduceOp::min || op == ReduceOp::band) return a && b;
  return a != b;
}

/// IEEE 754-2019 minimum and maximum.
template <ReduceOp op, class T>
T combine_extreme(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  if (a == b) return std::signbit(a) == (op == ReduceOp::min) ? a : b;
  return (a < b) == (op == ReduceOp::min) ? a : b;
}

template <ReduceOp op, class T>
T combine(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return combine_logical<op>(a, b);
  } else if constexpr (kIsComplex<T>) {
    if constexpr (op == ReduceOp::product) return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    return {a.re + b.re, a.im + b.im};
  } else if constexpr (op == ReduceOp::min || op == ReduceOp::max) {
    if constexpr (std::is_floating_point_v<T>) return combine_extreme<op>(a, b);
    return (a < b) == (op == ReduceOp::min) ? a : b;
  } else if constexpr (std::is_floating_point_v<T>) {
    return op == ReduceOp::product ? a * b : a + b;
  } else {  // as unsigned 64-bit numbers, which wrap and whose lower bits are right for every width and sign
    const auto x = static_cast<std::uint64_t>(static_cast<std::int64_t>(a));
    const auto y = static_cast<std::uint64_t>(static_cast<std::int64_t>(b));
    if constexpr (op == ReduceOp::sum || op == ReduceOp::avg) return static_cast<T>(x + y);
    if constexpr (op == ReduceOp::product) return static_cast<T>(x * y);
    if constexpr (op == ReduceOp::band) return static_cast<T>(x & y);
    if constexpr (op == ReduceOp::bor) return static_cast<T>(x | y);
    return static_cast<T>(x ^ y);
  }
}

template <ReduceOp op, class T>
T finish(T value, std::int32_t divisor) {
  if constexpr (kIsComplex<T>) return {finish<op>(value.re, divisor), finish<op>(value.im, divisor)};
  if constexpr (std::is_floating_point_v<T>) {
    if constexpr (op == ReduceOp::sum || op == ReduceOp::avg)
      if (divisor > 1) value /= static_cast<T>(divisor);
    if (std::isnan(value)) return std::numeric_limits<T>::quiet_NaN();  // the one NaN, see kernels.h
  } else if constexpr (op == ReduceOp::avg && std::is_integral_v<T>) {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;  // an i8 holds no 200
    if (divisor > 1) return static_cast<T>(static_cast<Wide>(value) / static_cast<Wide>(divisor));
  }
  return value;
}

template <ReduceOp op, DType dtype>
void reference(void* const* dst, std::size_t dsts, const void* const* src, std::size_t k, std::size_t count,
               std::int32_t divisor, std::uint32_t, bool) noexcept {
  using E = Element<dtype>;
  const auto at = [&](std::size_t q, std::size_t i) {
    typename E::Stored s;
    std::memcpy(&s, static_cast<const char*>(src[q]) + i * sizeof(s), sizeof(s));
    return E::widen(s);
  };
  for (std::size_t i = 0; i < count; i++) {
    auto value = at(0, i);
    for (std::size_t q = 1; q < k; q++) value = combine<op>(value, at(q, i));
    const typename E::Stored result = E::narrow(finish<op>(value, divisor));
    for (std::size_t d = 0; d < dsts; d++)
      std::memcpy(static_cast<char*>(dst[d]) + i * sizeof(result), &result, sizeof(result));
  }
}

template <DType half>
void widen_reference(char* to, const char* from, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; i++) {
    std::uint16_t s;
    std::memcpy(&s, from + i * sizeof(s), sizeof(s));
    const float f = Element<half>::widen(s);
    std::memcpy(to + i * sizeof(f), &f, sizeof(f));
  }
}

template <DType half>
void narrow_reference(char* to, const char* from, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; i++) {
    float f;
    std::memcpy(&f, from + i * sizeof(f), sizeof(f));
    const std::uint16_t s = Element<half>::narrow(f);
    std::memcpy(to + i * sizeof(s), &s, sizeof(s));
  }
}

template <std::size_t... I>
constexpr unit::Table make_table(std::index_sequence<I...>) {
  unit::Table table{};
  const auto fill = [&]<std::size_t i>() {
    constexpr auto op = static_cast<ReduceOp>(i / kDTypes);
    constexpr auto dtype = static_cast<DType>(i % kDTypes);
    if constexpr (supports(op, dtype)) table.reduce[i / kDTypes][i % kDTypes] = reference<op, dtype>;
  };
  (fill.template operator()<I>(), ...);
  table.widen[0] = widen_reference<DType::f16>, table.widen[1] = widen_reference<DType::bf16>;
  table.narrow[0] = narrow_reference<DType::f16>, table.narrow[1] = narrow_reference<DType::bf16>;
  return table;
}

}  // namespace

constinit const unit::Table kReferenceTable = make_table(std::make_index_sequence<kReduceOps * kDTypes>());

}  // namespace unisono::kernels

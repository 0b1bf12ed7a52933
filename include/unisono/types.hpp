#pragma once
/// The words of the field: element types, reduction operations, collectives. Values only.

#include <complex>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <type_traits>

#include "unisono/export.hpp"

namespace unisono {

/// Element types. f16 is IEEE binary16, bf16 the upper half of binary32; sums and products of both are f32
/// until all ranks are in, on every transport, and rounded once.
/// boolean is one byte, zero or not zero. c64 and c128 are two f32 or f64: real part, then
/// imaginary part.
enum class DType : std::uint8_t { f16, bf16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean, c64, c128 };

namespace detail {
enum class Kind : std::uint8_t { floating, integer, boolean, complex };
/// All that depends on the element type, but for the kernels that compute with it (src/kernels).
struct DTypeRow {
  std::string_view name;
  std::string_view numpy;  ///< NumPy's name for it; empty if it has none
  std::uint8_t size;
  Kind kind;
};
/// In the order of DType.
inline constexpr DTypeRow kDTypeTable[] = {
    {"f16", "float16", 2, Kind::floating},     {"bf16", "", 2, Kind::floating},
    {"f32", "float32", 4, Kind::floating},     {"f64", "float64", 8, Kind::floating},
    {"i8", "int8", 1, Kind::integer},          {"i16", "int16", 2, Kind::integer},
    {"i32", "int32", 4, Kind::integer},        {"i64", "int64", 8, Kind::integer},
    {"u8", "uint8", 1, Kind::integer},         {"u16", "uint16", 2, Kind::integer},
    {"u32", "uint32", 4, Kind::integer},       {"u64", "uint64", 8, Kind::integer},
    {"bool", "bool", 1, Kind::boolean},        {"c64", "complex64", 8, Kind::complex},
    {"c128", "complex128", 16, Kind::complex},
};
constexpr const DTypeRow& row_of(DType dtype) noexcept { return kDTypeTable[static_cast<std::size_t>(dtype)]; }
}  // namespace detail

inline constexpr int kDTypes = static_cast<int>(std::size(detail::kDTypeTable));
static_assert(kDTypes == static_cast<int>(DType::c128) + 1, "one row for each DType");

/// Reduction operations. avg is sum divided once by the number of ranks, not for boolean; of integers the sum wraps as
/// in sum, and the quotient is truncated towards zero (-3 / 2 is -1), as NCCL does. min and max propagate NaN whichever
/// rank holds it. band, bor, bxor are for integers and boolean.
enum class ReduceOp : std::uint8_t { sum, avg, product, min, max, band, bor, bxor };
inline constexpr int kReduceOps = 8;

/// Collectives. `reduce` leaves the input of every rank but the root untouched.
enum class Collective : std::uint8_t {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  gather,
  scatter,
  all_to_all,
  barrier
};
inline constexpr int kCollectives = 9;

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) noexcept { return detail::row_of(dtype).size; }

constexpr bool is_floating(DType dtype) noexcept { return detail::row_of(dtype).kind == detail::Kind::floating; }
constexpr bool is_complex(DType dtype) noexcept { return detail::row_of(dtype).kind == detail::Kind::complex; }

/// True for the collectives that combine elements (and therefore take a ReduceOp).
constexpr bool reduces(Collective c) noexcept {
  return c == Collective::all_reduce || c == Collective::reduce || c == Collective::reduce_scatter;
}

/// True for the collectives that have a root.
constexpr bool rooted(Collective c) noexcept {
  return c == Collective::reduce || c == Collective::broadcast || c == Collective::gather || c == Collective::scatter;
}

constexpr std::string_view name_of(DType dtype) noexcept { return detail::row_of(dtype).name; }
constexpr std::string_view name_of(ReduceOp op) noexcept {
  constexpr std::string_view names[kReduceOps] = {"sum", "avg", "product", "min", "max", "band", "bor", "bxor"};
  return names[static_cast<std::size_t>(op)];
}
constexpr std::string_view name_of(Collective c) noexcept {
  constexpr std::string_view names[kCollectives] = {"all_reduce", "reduce",         "broadcast",
                                                    "all_gather", "reduce_scatter", "gather",
                                                    "scatter",    "all_to_all",     "barrier"};
  return names[static_cast<std::size_t>(c)];
}

namespace detail {
template <class Enum, int N>
constexpr std::optional<Enum> enum_from_name(std::string_view name) noexcept {
  for (int i = 0; i < N; i++)
    if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  return std::nullopt;
}
}  // namespace detail

/// The value with that name ("f32", "sum", "all_reduce"), or nothing.
constexpr std::optional<DType> dtype_from_name(std::string_view n) noexcept {
  return detail::enum_from_name<DType, kDTypes>(n);
}
constexpr std::optional<ReduceOp> reduce_op_from_name(std::string_view n) noexcept {
  return detail::enum_from_name<ReduceOp, kReduceOps>(n);
}
constexpr std::optional<Collective> collective_from_name(std::string_view n) noexcept {
  return detail::enum_from_name<Collective, kCollectives>(n);
}

namespace detail {
constexpr std::optional<DType> integer_of(std::size_t size, bool is_signed) noexcept {
  switch (size) {
    case 1:
      return is_signed ? DType::i8 : DType::u8;
    case 2:
      return is_signed ? DType::i16 : DType::u16;
    case 4:
      return is_signed ? DType::i32 : DType::u32;
    case 8:
      return is_signed ? DType::i64 : DType::u64;
    default:
      return std::nullopt;
  }
}

/// The DType of T, or nothing where T cannot be reduced.
template <class T>
constexpr std::optional<DType> find_dtype() noexcept {
  if constexpr (std::is_same_v<T, bool>)
    return DType::boolean;
  else if constexpr (std::is_same_v<T, std::byte>)
    return DType::u8;
  else if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    return DType::c64;
  else if constexpr (std::is_same_v<T, std::complex<double>>)
    return DType::c128;
  else if constexpr (std::is_integral_v<T>)
    return integer_of(sizeof(T), std::is_signed_v<T>);
  else
    return std::nullopt;
}
}  // namespace detail

/// The DType of a C++ type: bool, std::byte, integers of 1 to 8 bytes, float, double, and
/// std::complex of these two. f16 and bf16 have no C++20 type: a program that has one names the
/// DType in a Call.
template <class T>
constexpr DType dtype_of() noexcept {
  constexpr std::optional<DType> dtype = detail::find_dtype<T>();
  static_assert(dtype.has_value(),
                "unisono: elements of this type cannot be reduced. Those that can: bool, std::byte, integers of 1 to 8 "
                "bytes, float, double, std::complex<float>, std::complex<double>. broadcast, all_gather, gather, "
                "scatter, all_to_all, send and recv take any trivially copyable type");
  return dtype.value_or(DType::u8);  // one message is enough
}

/// Whether `op` means something for `dtype`: sum and product for all numbers, avg for all but bool,
/// min and max for all that have an order (not complex), band, bor and bxor for integers and bool.
constexpr bool supports(ReduceOp op, DType dtype) noexcept {
  const detail::Kind kind = detail::row_of(dtype).kind;
  switch (op) {
    case ReduceOp::avg:
      return kind != detail::Kind::boolean;
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor:
      return kind == detail::Kind::integer || kind == detail::Kind::boolean;
    case ReduceOp::min:
    case ReduceOp::max:
      return kind != detail::Kind::complex;
    default:
      return true;
  }
}

}  // namespace unisono

#pragma once
/// The words of the field: element types, reduction operations, collectives. Values only.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "unisono/export.hpp"

namespace unisono {

/// Element types. f16 is IEEE binary16, bf16 the upper half of binary32; sums and products of both are f32
/// until all ranks are in, on every transport, and rounded once.
/// boolean is one byte, zero or not zero.
enum class DType : std::uint8_t { f16, bf16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean };
inline constexpr int kDTypes = 13;

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
constexpr std::size_t size_of(DType dtype) noexcept {
  constexpr std::uint8_t sizes[kDTypes] = {2, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1};
  return sizes[static_cast<std::size_t>(dtype)];
}

constexpr bool is_floating(DType dtype) noexcept { return dtype <= DType::f64; }

/// True for the collectives that combine elements (and therefore take a ReduceOp).
constexpr bool reduces(Collective c) noexcept {
  return c == Collective::all_reduce || c == Collective::reduce || c == Collective::reduce_scatter;
}

/// True for the collectives that have a root.
constexpr bool rooted(Collective c) noexcept {
  return c == Collective::reduce || c == Collective::broadcast || c == Collective::gather || c == Collective::scatter;
}

constexpr std::string_view name_of(DType dtype) noexcept {
  constexpr std::string_view names[kDTypes] = {"f16", "bf16", "f32", "f64", "i8",  "i16", "i32",
                                               "i64", "u8",   "u16", "u32", "u64", "bool"};
  return names[static_cast<std::size_t>(dtype)];
}
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

/// The DType of a C++ arithmetic type; f16 and bf16 have no C++20 type and are named explicitly.
template <class T>
constexpr DType dtype_of() noexcept;
template <>
constexpr DType dtype_of<float>() noexcept {
  return DType::f32;
}
template <>
constexpr DType dtype_of<double>() noexcept {
  return DType::f64;
}
template <>
constexpr DType dtype_of<std::int8_t>() noexcept {
  return DType::i8;
}
template <>
constexpr DType dtype_of<std::int16_t>() noexcept {
  return DType::i16;
}
template <>
constexpr DType dtype_of<std::int32_t>() noexcept {
  return DType::i32;
}
template <>
constexpr DType dtype_of<std::int64_t>() noexcept {
  return DType::i64;
}
template <>
constexpr DType dtype_of<long long>() noexcept {
  return DType::i64;
}
template <>
constexpr DType dtype_of<std::uint8_t>() noexcept {
  return DType::u8;
}
template <>
constexpr DType dtype_of<std::uint16_t>() noexcept {
  return DType::u16;
}
template <>
constexpr DType dtype_of<std::uint32_t>() noexcept {
  return DType::u32;
}
template <>
constexpr DType dtype_of<std::uint64_t>() noexcept {
  return DType::u64;
}
template <>
constexpr DType dtype_of<unsigned long long>() noexcept {
  return DType::u64;
}
template <>
constexpr DType dtype_of<bool>() noexcept {
  return DType::boolean;
}

/// Whether `op` means something for `dtype` (avg of boolean and band of floats do not).
constexpr bool supports(ReduceOp op, DType dtype) noexcept {
  switch (op) {
    case ReduceOp::avg:
      return dtype != DType::boolean;
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor:
      return !is_floating(dtype);
    default:
      return true;
  }
}

}  // namespace unisono

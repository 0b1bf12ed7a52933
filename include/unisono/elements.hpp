#pragma once
/// What the typed members of Group take: contiguous memory (vectors, arrays, spans, strings) and
/// its elements.

#include <cstddef>
#include <optional>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>

#include "unisono/types.hpp"

namespace unisono::detail {

/// Whether a copy of T's bytes is a copy of T. std::pair and std::tuple count, whose assignment
/// alone is not trivial. Pointers do not, nor what is known to hold some (std::span,
/// std::string_view): they mean nothing in another process.
template <class T>
inline constexpr bool kMovable =
    (std::is_trivially_copyable_v<T> ||
     (std::is_trivially_copy_constructible_v<T> && std::is_trivially_destructible_v<T>)) &&
    !std::is_pointer_v<T> && !std::is_member_pointer_v<T> && !std::is_null_pointer_v<T> && !std::ranges::view<T>;

template <class T>
constexpr void require_movable() noexcept {
  static_assert(
      kMovable<T>,
      "unisono: elements of this type cannot be sent to another process: they are not trivially copyable, or "
      "are pointers or views. Send numbers, bool, enums, std::complex, or structs, pairs and arrays of these");
}

/// How elements of T travel where they are not reduced: as `times` of `dtype` each.
struct Moved {
  DType dtype = DType::u8;
  std::size_t times = 1;
};
template <class T>
constexpr Moved moved_as() noexcept {
  require_movable<T>();
  constexpr std::optional<DType> dtype = find_dtype<T>();
  return dtype ? Moved{*dtype, 1} : Moved{DType::u8, sizeof(T)};
}

/// So that all_reduce(x, op) and all_reduce(in, out) are told apart.
template <class X>
concept Range = std::ranges::range<X>;
template <class X>
using ElementOf = std::remove_cv_t<std::remove_reference_t<decltype(*std::ranges::begin(std::declval<X&>()))>>;

template <class X>
inline constexpr bool kContiguous = std::ranges::contiguous_range<X> && std::ranges::sized_range<X>;
template <class X>
constexpr void require_contiguous() noexcept {
  static_assert(kContiguous<X>,
                "unisono: elements must lie side by side in memory: give a std::vector, std::array, std::string, "
                "built-in array or std::span. (std::vector<bool> packs its elements; use std::vector<char>)");
}

template <Range X>
constexpr auto input_of(const X& x) noexcept {
  require_contiguous<const X>();
  if constexpr (kContiguous<const X>)
    return std::span<const ElementOf<const X>>(std::ranges::data(x), std::ranges::size(x));
  else
    return std::span<const std::byte>();
}

/// X is a reference where the caller has a variable.
template <Range X>
constexpr void require_outliving() noexcept {
  static_assert(std::is_lvalue_reference_v<X> || std::ranges::borrowed_range<X>,
                "unisono: this memory is used here, but it belongs to a temporary object that ends with the call");
}

template <Range X>
constexpr auto output_of(X&& x) noexcept {
  using T = ElementOf<X>;
  require_contiguous<X>();
  static_assert(!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<X>>>,
                "unisono: the result is written here, but its elements are const");
  require_outliving<X>();
  if constexpr (kContiguous<X> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<X>>>)
    return std::span<T>(std::ranges::data(x), std::ranges::size(x));
  else
    return std::span<std::byte>();  // one message is enough
}

template <class In, class Out>
constexpr void require_same_elements() noexcept {
  static_assert(!kContiguous<In> || !kContiguous<Out> || std::is_same_v<ElementOf<In>, ElementOf<Out>>,
                "unisono: input and output must have the same element type");
}

}  // namespace unisono::detail

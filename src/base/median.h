#pragma once
/// What is typical of a few measured values, and what is when nobody disturbs. Values are passed by value: they are put into another order to find it.

#include <algorithm>
#include <cstddef>
#include <utility>

namespace unisono {

/// That of the first `known` values which one part in `parts` of them is below; of an even number's two in the middle the larger. 0 of none. `Values`: a vector or an array.
template <class Values>
typename Values::value_type quantile_of_first(Values values, std::size_t known, std::size_t parts) noexcept {
  if (known == 0) return {};
  const auto first = values.begin();
  const auto at = first + static_cast<std::ptrdiff_t>(known / parts);
  std::nth_element(first, at, first + static_cast<std::ptrdiff_t>(known));
  return *at;
}

/// Of all of them.
template <class Values>
typename Values::value_type median(Values values) noexcept {
  const std::size_t all = values.size();
  return quantile_of_first(std::move(values), all, 2);
}

/// Disturbances make things longer, never shorter; a quarter of the figures are free of them on all but the busiest machines.
template <class Values>
typename Values::value_type lower_quartile(Values values) noexcept {
  const std::size_t all = values.size();
  return quantile_of_first(std::move(values), all, 4);
}

}  // namespace unisono

#pragma once
/// Text that a user wrote, without the white space around it.

#include <string_view>

namespace unisono::plan {

/// `text` without spaces, tabs and ends of lines at its ends; a view into it.
inline std::string_view trimmed(std::string_view text) noexcept {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return text.substr(0, 0);
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

}  // namespace unisono::plan

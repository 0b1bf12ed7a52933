#pragma once
/// Lists and ranges of sizes, as --sizes has them. Pure.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace unisono::cli {

/// More sizes than this are refused: nobody reads them, and a slip (a step of one byte) makes
/// millions.
inline constexpr std::size_t kMostSizes = 10'000;

/// The bytes that `text` lists, in its order: sizes (8, 64K), and ranges FROM:TO:xFACTOR or
/// FROM:TO:+STEP, both ends included where the steps meet them, separated by commas. Refused: what
/// is empty, descends or does not move, and more than kMostSizes; the message has the part that is
/// wrong, and how it is written.
Result<std::vector<std::int64_t>> parse_sizes(std::string_view text);

}  // namespace unisono::cli

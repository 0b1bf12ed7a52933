#pragma once
/// From choices at some sizes to rules for all sizes about them. Pure.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "plan/registry.h"

namespace unisono::plan {

struct SizedChoice {
  std::int64_t bytes = 0;
  const Algorithm* algorithm = nullptr;  ///< none: earlier rules stand
};

/// "HEAD:from-to=algorithm,..."; empty without a choice. `choices` ascend by size. Between two sizes the limit is their geometric
/// mean; below the first and above the last one a rule reaches to half and twice the size.
std::string range_rules(std::string_view head, std::span<const SizedChoice> choices);

}  // namespace unisono::plan

#pragma once
/// Reads the syntax of select.h. Pure.

#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/select.h"

namespace unisono::plan {

/// The rules in `text`, in its order. An error shows the text with a mark under the place.
Result<std::vector<Rule>> parse_rules(std::string_view text, Origin origin);

}  // namespace unisono::plan

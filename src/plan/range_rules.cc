#include "plan/range_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "plan/select.h"

namespace unisono::plan {

namespace {

struct Range {
  std::int64_t from, to;
  const Algorithm* algorithm;
};

std::int64_t between(std::int64_t a, std::int64_t b) {
  return std::llround(std::sqrt(static_cast<double>(a) * static_cast<double>(b)));
}

}  // namespace

std::string range_rules(std::string_view head, std::span<const SizedChoice> choices) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < choices.size(); i++) {
    const auto& [bytes, algorithm] = choices[i];
    if (algorithm == nullptr) continue;
    const bool last = i + 1 == choices.size();
    const std::int64_t from = i == 0 ? bytes / 2 : between(choices[i - 1].bytes, bytes);
    const std::int64_t to = last ? std::max<std::int64_t>(1, bytes * 2) : between(bytes, choices[i + 1].bytes);
    if (!ranges.empty() && ranges.back().to == from && ranges.back().algorithm == algorithm)
      ranges.back().to = to;
    else
      ranges.push_back({from, to, algorithm});
  }
  std::string text;
  for (const Range& r : ranges)
    text += fmt::format("{}{}-{}={}", text.empty() ? fmt::format("{}:", head) : ",", format_size(r.from),
                        format_size(r.to), r.algorithm->name);
  return text;
}

}  // namespace unisono::plan

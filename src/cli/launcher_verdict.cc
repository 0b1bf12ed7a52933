#include "cli/launcher_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace unisono::cli {

std::string describe_others(std::span<const RankEnd> ends, int first) {
  constexpr int kMostNamed = 16;
  std::string text;
  std::vector<Ending> told;
  for (const RankEnd& end : ends) {
    if (end.rank == first || !end.ending || std::ranges::find(told, *end.ending) != told.end()) continue;
    told.push_back(*end.ending);
    std::string numbers;
    int count = 0;
    for (const RankEnd& e : ends)
      if (e.rank != first && e.ending == end.ending && ++count <= kMostNamed)
        numbers += (count > 1 ? "," : "") + std::to_string(e.rank);
    text += fmt::format("; rank{} {}{}: {}", count > 1 ? "s" : "", numbers, count > kMostNamed ? ",..." : "",
                        to_string(*end.ending));
  }
  return text;
}

}  // namespace unisono::cli

#include "cli/launcher_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace unisono::cli {
namespace {

const RankEnd* find(std::span<const RankEnd> ends, int rank) {
  const auto found = std::ranges::find(ends, rank, &RankEnd::rank);
  return found == ends.end() ? nullptr : &*found;
}

}  // namespace

std::optional<int> first_in_cause(std::span<const RankEnd> ends, int first) {
  std::vector<int> seen;
  for (int at = first;;) {
    seen.push_back(at);
    const RankEnd* next = nullptr;
    for (const Culprit& culprit : find(ends, at)->culprits) {
      const RankEnd* other = find(ends, culprit.rank);
      if (other == nullptr || std::ranges::find(seen, other->rank) != seen.end()) continue;
      if (!other->ending) return std::nullopt;
      if (next == nullptr && other->failed()) next = other;
    }
    if (next == nullptr) return at;
    at = next->rank;
  }
}

std::string describe_culprits(std::span<const RankEnd> ends, int rank) {
  std::string text;
  for (const Culprit& culprit : find(ends, rank)->culprits) {
    const RankEnd* other = find(ends, culprit.rank);
    if (other == nullptr)
      text += fmt::format("; its error names pid {} on host {}", culprit.pid, culprit.host);
    else if (other->rank != rank && other->ending && other->ending->ok())
      text += fmt::format("; its error names rank {}, which had ended with status 0", other->rank);
    else if (other->rank != rank && other->ended_by_us)
      text += fmt::format("; its error names rank {}, which ran until it was ended", other->rank);
  }
  return text;
}

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

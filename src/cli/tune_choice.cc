#include "cli/tune_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "plan/select.h"

namespace unisono::cli {

namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Round by round: machines are slow for a while and quick again, but for neighbours in time alike.
bool clearly_faster(const Candidate& candidate, const Candidate& than) {
  const std::size_t rounds = std::min(candidate.rounds.size(), than.rounds.size());
  std::vector<double> gains;
  std::size_t won = 0;
  for (std::size_t r = 0; r < rounds; r++) {
    gains.push_back(than.rounds[r] / candidate.rounds[r]);
    won += gains.back() > 1;
  }
  return rounds > 0 && median(gains) > kClearly &&
         static_cast<double>(won) >= kMostRounds * static_cast<double>(rounds);
}

struct Range {
  std::int64_t from, to;
  const plan::Algorithm* algorithm;
};

std::int64_t between(std::int64_t a, std::int64_t b) {
  return std::llround(std::sqrt(static_cast<double>(a) * static_cast<double>(b)));
}

/// Of points of one collective and one kind of memory, ascending; those that `wanted` refuses have no rule.
template <class Wanted>
std::vector<Range> ranges_of(const std::vector<const TunePoint*>& points, const Wanted& wanted) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < points.size(); i++) {
    const std::int64_t bytes = points[i]->bytes;
    const std::int64_t from = i == 0 ? bytes / 2 : between(points[i - 1]->bytes, bytes);
    const std::int64_t to =
        i + 1 == points.size() ? std::max<std::int64_t>(1, bytes * 2) : between(bytes, points[i + 1]->bytes);
    const plan::Algorithm* algorithm = points[i]->candidates[points[i]->chosen].algorithm;
    if (!wanted(*algorithm)) continue;
    if (!ranges.empty() && ranges.back().to == from && ranges.back().algorithm == algorithm)
      ranges.back().to = to;
    else
      ranges.push_back({from, to, algorithm});
  }
  return ranges;
}

std::string rule_text(std::string_view head, const std::vector<Range>& ranges) {
  std::string text;
  for (const Range& r : ranges)
    text += fmt::format("{}{}-{}={}", text.empty() ? "" : ",", plan::format_size(r.from), plan::format_size(r.to),
                        r.algorithm->name);
  return text.empty() ? text : fmt::format("{}:{}", head, text);
}

}  // namespace

double Candidate::seconds() const { return median(rounds); }

double TunePoint::ratio(std::size_t candidate) const {
  const double least = candidates[best].seconds();
  return least > 0 ? candidates[candidate].seconds() / least : 1;
}

void choose(TunePoint& point) {
  std::vector<std::size_t> order(point.candidates.size());
  for (std::size_t i = 0; i < order.size(); i++) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return point.candidates[a].seconds() < point.candidates[b].seconds();
  });
  point.best = order.front();
  point.chosen = point.in_force;
  for (const std::size_t i : order) {
    if (i == point.in_force) return;  // the rest is slower
    if (!clearly_faster(point.candidates[i], point.candidates[point.in_force])) continue;
    point.chosen = i;
    return;
  }
}

std::string rules_of(std::span<const TunePoint> points, std::string_view place, int ranks) {
  std::string text;
  for (int c = 0; c < kCollectives; c++) {
    const auto collective = static_cast<Collective>(c);
    // Rules for shared buffers come last: they are passed over for private ones, and win where both fit.
    for (const bool shared : {false, true}) {
      std::vector<const TunePoint*> own;
      for (const TunePoint& p : points)
        if (p.collective == collective && p.shared_buffers == shared) own.push_back(&p);
      std::sort(own.begin(), own.end(), [](const TunePoint* a, const TunePoint* b) { return a->bytes < b->bytes; });
      const std::string rule = rule_text(
          fmt::format("{}@{}[{}]", name_of(collective), place, ranks),
          ranges_of(own, [&](const plan::Algorithm& a) { return (a.place == plan::Place::shared_buffers) == shared; }));
      if (!rule.empty()) text += (text.empty() ? "" : ";") + rule;
    }
  }
  return text;
}

std::string merge_rules(std::string_view earlier, std::span<const TunePoint> points, std::string_view rules) {
  std::set<Collective> measured;
  for (const TunePoint& p : points) measured.insert(p.collective);
  std::string text;
  if (const auto old = plan::Selector::parse("", earlier))
    for (const plan::Rule& rule : old->rules())
      if (rule.origin == plan::Origin::tuned && !measured.contains(rule.collective)) text += plan::to_text(rule) + ";";
  return text + std::string(rules);
}

}  // namespace unisono::cli

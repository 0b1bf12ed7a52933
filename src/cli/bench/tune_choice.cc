#include "cli/bench/tune_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/median.h"
#include "plan/range_rules.h"
#include "plan/select.h"

namespace unisono::cli {

namespace {

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

/// What a rule may be for: private buffers; what competes with that, through the kernel; shared
/// ones; shared ones with all outputs among them.
constexpr plan::Place kRulesFor[] = {plan::Place::shared_memory, plan::Place::peer_memory, plan::Place::shared_buffers,
                                     plan::Place::shared_outputs};

/// The fastest of those that `fits`, or null.
template <class Fits>
const plan::Algorithm* best_of(const TunePoint& point, const Fits& fits) {
  const Candidate* best = nullptr;
  for (std::size_t i = 0; i < point.candidates.size(); i++) {
    const Candidate& c = point.candidates[i];
    if (!point.dropped(i) && fits(c.algorithm->place) && (best == nullptr || c.seconds() < best->seconds())) best = &c;
  }
  return best == nullptr ? nullptr : best->algorithm;
}

/// What the rules for `memory` say at a point; null: nothing, the rules before them do. Where an
/// algorithm needs all outputs, the best one that does not is for calls in which not all are
/// shared; where it reads through the kernel, the best one that does not is what it competes with.
/// A rival stays one: which of the two is faster changes while programs run.
const plan::Algorithm* rule_at(const TunePoint& point, plan::Place memory) {
  using plan::Place;
  const plan::Algorithm* chosen = point.candidates[point.chosen].algorithm;
  if (memory == Place::peer_memory) {
    if (chosen->place == memory) return chosen;
    return point.rival ? point.candidates[*point.rival].algorithm : nullptr;
  }
  if (chosen->place == Place::peer_memory) chosen = best_of(point, [](Place p) { return p != Place::peer_memory; });
  if (chosen == nullptr) return nullptr;
  if (memory == Place::shared_memory) return plan::needs_shared_buffers(chosen->place) ? nullptr : chosen;
  if (chosen->place == Place::shared_outputs && memory == Place::shared_buffers)
    chosen = best_of(point, [](Place p) { return p != Place::shared_outputs; });
  return chosen != nullptr && chosen->place == memory ? chosen : nullptr;
}

}  // namespace

double Candidate::seconds() const { return median(rounds); }

double TunePoint::ratio(std::size_t candidate) const {
  const double least = candidates[best].seconds();
  return least > 0 ? candidates[candidate].seconds() / least : 1;
}

std::size_t TunePoint::runs(std::size_t choice) const {
  return rival && !dropped(*rival) && candidates[*rival].seconds() < candidates[choice].seconds() ? *rival : choice;
}

bool TunePoint::dropped(std::size_t candidate) const {
  return candidates[candidate].rounds.size() < candidates[in_force].rounds.size();
}

bool TunePoint::unsettled() const {
  for (std::size_t i = 0; i < candidates.size(); i++)
    if (dropped(i) && candidates[i].seconds() < candidates[runs(chosen)].seconds()) return true;
  return false;
}

void choose(TunePoint& point) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < point.candidates.size(); i++)
    if (!point.dropped(i)) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return point.candidates[a].seconds() < point.candidates[b].seconds();
  });
  point.best = order.front();
  point.chosen = point.in_force;
  for (const std::size_t i : order) {
    if (i == point.in_force || i == point.rival) return;  // the rest is slower
    if (!clearly_faster(point.candidates[i], point.candidates[point.runs(point.in_force)])) continue;
    point.chosen = i;
    return;
  }
}

void settle(TunePoint& point) {
  if (point.behind(point.chosen) > kMostBehind) point.chosen = point.best;
}

std::string rules_of(std::span<const TunePoint> points, std::string_view place, int ranks) {
  std::string text;
  for (int c = 0; c < kCollectives; c++) {
    const auto collective = static_cast<Collective>(c);
    // Rules for shared buffers come last: they are passed over for private ones, and win where both
    // fit.
    for (const plan::Place memory : kRulesFor) {
      std::vector<const TunePoint*> own;
      for (const TunePoint& p : points)
        if (p.collective == collective && p.shared_buffers == plan::needs_shared_buffers(memory)) own.push_back(&p);
      std::sort(own.begin(), own.end(), [](const TunePoint* a, const TunePoint* b) { return a->bytes < b->bytes; });
      std::vector<plan::SizedChoice> choices;
      for (const TunePoint* p : own) choices.push_back({p->bytes, rule_at(*p, memory)});
      const std::string rule = plan::range_rules(fmt::format("{}@{}[{}]", name_of(collective), place, ranks), choices);
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

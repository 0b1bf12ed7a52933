#include "engine/compiled.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "plan/opening.h"

namespace unisono::engine {

namespace {

/// Whether the recv at `place` of its lane may be posted before the receives in front of it are there.
bool may_be_ahead(const plan::Plan& plan, const std::vector<std::uint32_t>& lane, std::size_t place) {
  const auto receives = [&](std::size_t at) { return plan.steps[lane[at]].op == plan::OpCode::recv; };
  if (place == 0 || !receives(place) || !receives(place - 1)) return false;
  for (std::size_t back = 1; back < kPostedAhead && back <= place && receives(place - back); back++)
    for (const plan::Ref& mine : plan.dst(plan.steps[lane[place]]))
      for (const plan::Ref& other : plan.dst(plan.steps[lane[place - back]]))
        if (plan::overlap(mine, other)) return false;
  return true;
}

/// Whether two steps, one behind the other, copy from the same place, and the second waits for nothing that the first does not.
bool copy_alike(const plan::Plan& plan, const plan::Step& first, const plan::Step& second) {
  return plan::copies(first.op) && plan::copies(second.op) && plan.waits_for(second).empty() &&
         plan.src(first)[0] == plan.src(second)[0];
}

/// Compiled::straight.
std::vector<std::uint32_t> straight_order(const plan::Plan& plan, const std::vector<std::vector<std::uint32_t>>& lanes,
                                          const std::vector<std::uint32_t>& places) {
  constexpr std::size_t kShort = 64;
  if (plan.staged || plan.shared || plan.steps.size() > kShort) return {};
  std::vector<std::uint32_t> order, positions(lanes.size());
  const auto passed = [&](std::uint32_t step) { return positions[plan.steps[step].lane] > places[step]; };
  while (order.size() < plan.steps.size()) {
    std::optional<std::uint32_t> next;
    for (std::size_t lane = 0; lane < lanes.size(); lane++) {
      if (positions[lane] == lanes[lane].size()) continue;
      const std::uint32_t step = lanes[lane][positions[lane]];
      if (!std::ranges::all_of(plan.waits_for(plan.steps[step]), passed)) continue;
      const auto waits = [&](std::uint32_t s) { return plan.steps[s].op == plan::OpCode::recv; };
      if (!next || std::pair(waits(step), step) < std::pair(waits(*next), *next)) next = step;
    }
    if (!next) return {};
    order.push_back(*next);
    positions[plan.steps[*next].lane]++;
  }
  return order;
}

/// Receives first, sends last.
int turn_of(const plan::Plan& plan, const std::vector<std::uint32_t>& lane) {
  if (lane.empty()) return 1;
  const plan::OpCode op = plan.steps[lane.front()].op;
  return op == plan::OpCode::recv ? 0 : op == plan::OpCode::send ? 2 : 1;
}

/// The one step that copies from a peer's input, or reduces that with this rank's; -1: none, or several.
std::int32_t only_get(const plan::Plan& plan) {
  std::int32_t found = -1;
  for (std::uint32_t i = 0; i < plan.steps.size(); i++) {
    const plan::Step& s = plan.steps[i];
    const auto peers = std::ranges::count(plan.src(s), plan::Space::peer_in, &plan::Ref::space);
    if (peers == 0) continue;
    const bool simple =
        s.op == plan::OpCode::get || (s.op == plan::OpCode::reduce && plan.shape.ranks == 2 && plan.src(s).size() == 2);
    if (found >= 0 || peers > 1 || !simple || plan.dst(s).size() != 1 || plan.dst(s)[0].count != 1) return -1;
    found = static_cast<std::int32_t>(i);
  }
  return found;
}

}  // namespace

Compiled compile(plan::Plan plan) {
  Compiled c;
  c.lanes.resize(plan.lanes);
  c.ordinals.resize(plan.steps.size());
  c.places.resize(plan.steps.size());
  c.ahead.resize(plan.steps.size());
  c.alike.resize(plan.steps.size());
  std::map<std::tuple<plan::OpCode, std::int32_t, std::uint16_t>, std::uint32_t> counts;
  std::set<std::int32_t> sends_to;
  for (std::uint32_t i = 0; i < plan.steps.size(); i++) {
    const plan::Step& s = plan.steps[i];
    c.places[i] = static_cast<std::uint32_t>(c.lanes.at(s.lane).size());
    c.lanes[s.lane].push_back(i);
    for (const plan::Ref& to : plan.dst(s)) c.returns |= to.space == plan::Space::stage && to.rank != plan.shape.rank;
    if (plan.joint && s.op == plan::OpCode::reduce) c.joint_reduction = static_cast<std::int32_t>(i);
    if (s.op != plan::OpCode::send && s.op != plan::OpCode::recv) continue;
    c.messages = true;
    // The channel takes the upper bits, so that messages of different channels never share an ordinal.
    c.ordinals[i] = static_cast<std::uint32_t>(s.channel) << 20 | counts[{s.op, s.peer, s.channel}]++;
    if (s.op == plan::OpCode::send) sends_to.insert(s.peer);
  }
  c.only_get = only_get(plan);
  c.exchanges = plan.shape.ranks == 2 && !plan.stage_extent.empty() && !c.returns && !rooted(plan.collective);
  for (std::uint16_t lane = 0; lane < plan.lanes; lane++) {
    c.turns.push_back(lane);
    for (std::size_t place = 0; place < c.lanes[lane].size(); place++)
      c.ahead[c.lanes[lane][place]] = may_be_ahead(plan, c.lanes[lane], place) ? 1 : 0;
    for (std::size_t place = c.lanes[lane].size(); place-- > 1;) {
      const std::uint32_t first = c.lanes[lane][place - 1], second = c.lanes[lane][place];
      if (copy_alike(plan, plan.steps[first], plan.steps[second])) c.alike[first] = c.alike[second] + 1;
    }
  }
  std::stable_sort(c.turns.begin(), c.turns.end(), [&](std::uint16_t a, std::uint16_t b) {
    return turn_of(plan, c.lanes[a]) < turn_of(plan, c.lanes[b]);
  });
  c.opening = plan::opening(plan);
  c.foldings = find_foldings(plan);
  c.straight = straight_order(plan, c.lanes, c.places);
  c.sends_to.assign(sends_to.begin(), sends_to.end());
  c.plan = std::move(plan);
  return c;
}

}  // namespace unisono::engine

#include "engine/compiled.h"

#include <map>
#include <set>
#include <tuple>

namespace unisono::engine {

Compiled compile(plan::Plan plan) {
  Compiled c;
  c.lanes.resize(plan.lanes);
  c.ordinals.resize(plan.steps.size());
  std::map<std::tuple<plan::OpCode, std::int32_t, std::uint16_t>, std::uint32_t> counts;
  std::set<std::int32_t> sends_to;
  for (std::uint32_t i = 0; i < plan.steps.size(); i++) {
    const plan::Step& s = plan.steps[i];
    c.lanes.at(s.lane).push_back(i);
    if (s.op != plan::OpCode::send && s.op != plan::OpCode::recv) continue;
    // The channel takes the upper bits, so that messages of different channels never share an ordinal.
    c.ordinals[i] = static_cast<std::uint32_t>(s.channel) << 20 | counts[{s.op, s.peer, s.channel}]++;
    if (s.op == plan::OpCode::send) sends_to.insert(s.peer);
  }
  c.sends_to.assign(sends_to.begin(), sends_to.end());
  c.plan = std::move(plan);
  return c;
}

}  // namespace unisono::engine

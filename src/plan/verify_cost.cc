#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/timeline.h"
#include "plan/verify_internal.h"

/// Counts what plans cost, to compare with the closed forms.
namespace unisono::plan::verification {

namespace {

// What one rank moves, in blocks: messages sent, or for staged plans what goes to and comes from stages and
// other ranks' buffers.
std::int64_t blocks_moved(const Plan& plan) {
  std::int64_t blocks = 0;
  for (const Step& step : plan.steps) {
    if (step.op == OpCode::send || step.op == OpCode::put) {
      for (const Ref& ref : plan.src(step)) blocks += ref.count;
    } else if (step.op == OpCode::get || step.op == OpCode::reduce) {
      for (const Ref& ref : plan.src(step)) blocks += has_owner(ref.space) ? ref.count : 0;
      for (const Ref& ref : plan.dst(step))
        blocks += has_owner(ref.space) && ref.rank != plan.shape.rank ? ref.count : 0;
    }
  }
  return blocks;
}

}  // namespace

Cost count(const Subject& subject, const Links& links) {
  Cost cost;
  cost.steps = time_steps(subject, links).length;
  const Plan& first = subject.plan(0);
  if (first.collective == Collective::barrier) return cost;
  const bool vector = first.collective == Collective::all_reduce || first.collective == Collective::reduce ||
                      first.collective == Collective::broadcast;
  std::int64_t most = 0;
  for (const Plan& plan : subject.plans) most = std::max(most, blocks_moved(plan));
  cost.volume = static_cast<double>(most) / (vector ? first.extents : subject.ranks());
  return cost;
}

void check_cost(const Cost& counted, const Cost& expected, Findings& findings) {
  const bool steps = expected.steps == Cost::kNotCounted || counted.steps == expected.steps;
  if (steps && std::abs(counted.volume - expected.volume) < 1e-9) return;
  findings.add(Fault::cost, -1, -1,
               fmt::format("the closed form says {} steps and {:.6g} S a rank, the plans have {} steps and {:.6g} S",
                           expected.steps, expected.volume, counted.steps, counted.volume));
}

}  // namespace unisono::plan::verification

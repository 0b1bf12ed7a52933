#include <fmt/format.h>

#include <algorithm>

#include "plan/verify_internal.h"

/// Why an execution stands still: the circle of steps that wait for each other.
namespace unisono::plan::verification {

namespace {

class Waiting {
 public:
  Waiting(const Subject& subject, const Links& links, const Standstill& at)
      : subject_(subject), links_(links), at_(at) {}

  /// Why `g` is not done, as the step that has to move first; kNone when it is waiting for something that never comes.
  GlobalStep blocker(GlobalStep g) const {
    const Step& step = subject_.step(g);
    if (at_.pending[g] > 0) return unfinished_predecessor(g);
    if (step.op == OpCode::send || step.op == OpCode::recv) return links_.counterpart[g];
    const auto& peer = subject_.plan(step.peer).steps;
    for (std::uint32_t i = 0; i < peer.size(); i++) {
      if (peer[i].op == OpCode::signal && peer[i].channel == step.channel) return subject_.global(step.peer, i);
    }
    return kNone;
  }

 private:
  GlobalStep unfinished_predecessor(GlobalStep g) const {
    const auto rank = subject_.rank_of(g);
    const Plan& plan = subject_.plan(rank);
    const std::uint32_t local = subject_.local(g);
    for (const std::uint32_t dep : plan.waits_for(plan.steps[local])) {
      if (!at_.done[subject_.global(rank, dep)]) return subject_.global(rank, dep);
    }
    for (std::uint32_t i = local; i-- > 0;) {
      if (plan.steps[i].lane == plan.steps[local].lane) return subject_.global(rank, i);
    }
    return kNone;
  }

  const Subject& subject_;
  const Links& links_;
  const Standstill& at_;
};

}  // namespace

void report_deadlock(const Subject& subject, const Links& links, const Standstill& at, Findings& findings) {
  const Waiting waiting(subject, links, at);
  GlobalStep g = 0;
  while (at.done[g]) g++;
  std::vector<GlobalStep> chain;
  while (g != kNone && std::ranges::find(chain, g) == chain.end()) {
    chain.push_back(g);
    g = waiting.blocker(g);
  }
  const auto cycle = g == kNone ? chain.begin() : std::ranges::find(chain, g);
  std::string text;
  for (auto it = cycle; it != chain.end(); ++it) {
    if (!text.empty()) text += " waits for ";
    text += subject.name(*it);
  }
  text += g == kNone ? ", which can never end" : fmt::format(" waits for {}", subject.name(g));
  const GlobalStep first = *cycle;
  findings.add(Fault::deadlock, subject.rank_of(first), subject.local(first),
               fmt::format("deadlock, {} of {} steps done: {}", at.completed, subject.steps(), text));
}

}  // namespace unisono::plan::verification

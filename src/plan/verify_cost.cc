#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/verify_internal.h"

/// Counts what plans cost, to compare with the closed forms.
namespace unisono::plan::verification {

namespace {

// What one rank moves, in blocks: messages sent, or for staged plans what goes to and comes from stages.
std::int64_t blocks_moved(const Plan& plan) {
  std::int64_t blocks = 0;
  for (const Step& step : plan.steps) {
    if (step.op == OpCode::send || step.op == OpCode::put) {
      for (const Ref& ref : plan.src(step)) blocks += ref.count;
    } else if (step.op == OpCode::get || step.op == OpCode::reduce) {
      for (const Ref& ref : plan.src(step)) blocks += ref.space == Space::stage ? ref.count : 0;
    }
  }
  return blocks;
}

// The textbook's time of a step: every message takes one unit, everything else none; a rank sends one message at a time
// and receives one at a time, in the order of its plan; a wait comes one unit after its signal.
class Timing {
 public:
  Timing(const Subject& subject, const Links& links)
      : subject_(subject),
        links_(links),
        pending_(links.pending),
        time_(subject.steps(), 0),
        next_in_port_(subject.steps(), kNone) {
    for (std::int32_t r = 0; r < subject.ranks(); r++) add_ports(r);
    add_flags();
  }

  // -1 when the order of ports and the order of messages contradict each other.
  std::int64_t longest() {
    std::vector<GlobalStep> ready;
    for (GlobalStep g = 0; g < subject_.steps(); g++) {
      if (pending_[g] == 0) ready.push_back(g);
    }
    std::int32_t latest = 0;
    std::uint32_t finished = 0;
    const auto follow = [&](GlobalStep g, std::int32_t earliest) {
      time_[g] = std::max(time_[g], earliest);
      if (--pending_[g] == 0) ready.push_back(g);
    };
    for (; !ready.empty(); finished++) {
      const GlobalStep g = ready.back();
      ready.pop_back();
      const OpCode op = subject_.step(g).op;
      const bool message = op == OpCode::send || op == OpCode::recv;
      const std::int32_t end = time_[g] + (message ? 1 : 0);
      latest = std::max(latest, end);
      for (std::uint32_t i = links_.first_successor[g]; i < links_.first_successor[g + 1]; i++)
        follow(links_.successors[i], end);
      if (next_in_port_[g] != kNone) follow(next_in_port_[g], end);
      if (op == OpCode::send && links_.counterpart[g] != kNone) follow(links_.counterpart[g], end - 1);
      if (op == OpCode::signal) {
        for (const GlobalStep waiter : waiters_[flag_of(subject_.rank_of(g), subject_.step(g).channel)])
          follow(waiter, end + 1);
      }
    }
    return finished == subject_.steps() ? latest : -1;
  }

 private:
  std::size_t flag_of(std::int32_t rank, std::uint16_t channel) const {
    return static_cast<std::size_t>(rank) * subject_.plan(0).channels + channel;
  }

  void add_ports(std::int32_t rank) {
    GlobalStep last_send = kNone, last_recv = kNone;
    for (std::uint32_t i = 0; i < subject_.plan(rank).steps.size(); i++) {
      const OpCode op = subject_.plan(rank).steps[i].op;
      if (op != OpCode::send && op != OpCode::recv) continue;
      const GlobalStep g = subject_.global(rank, i);
      GlobalStep& last = op == OpCode::send ? last_send : last_recv;
      if (last != kNone) {
        next_in_port_[last] = g;
        pending_[g]++;
      }
      last = g;
      if (op == OpCode::recv && links_.counterpart[g] != kNone) pending_[g]++;
    }
  }

  void add_flags() {
    waiters_.resize(static_cast<std::size_t>(subject_.ranks()) * subject_.plan(0).channels);
    for (GlobalStep g = 0; g < subject_.steps(); g++) {
      const Step& step = subject_.step(g);
      if (step.op != OpCode::wait) continue;
      waiters_[flag_of(step.peer, step.channel)].push_back(g);
      pending_[g]++;
    }
  }

  const Subject& subject_;
  const Links& links_;
  std::vector<std::uint32_t> pending_;
  std::vector<std::int32_t> time_;
  std::vector<GlobalStep> next_in_port_;
  std::vector<std::vector<GlobalStep>> waiters_;
};

}  // namespace

Cost count(const Subject& subject, const Links& links) {
  Cost cost;
  cost.steps = Timing(subject, links).longest();
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
  if (counted.steps == expected.steps && std::abs(counted.volume - expected.volume) < 1e-9) return;
  findings.add(Fault::cost, -1, -1,
               fmt::format("the closed form says {} steps and {:.6g} S a rank, the plans have {} steps and {:.6g} S",
                           expected.steps, expected.volume, counted.steps, counted.volume));
}

}  // namespace unisono::plan::verification

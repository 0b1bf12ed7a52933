#include "plan/timeline.h"

#include <algorithm>

#include "plan/verify_internal.h"

namespace unisono::plan {

namespace verification {

namespace {

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

  Timeline run() {
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
    Timeline timeline;
    timeline.length = finished == subject_.steps() ? latest : -1;
    for (std::int32_t r = 0; r < subject_.ranks(); r++) {
      timeline.start.emplace_back(time_.begin() + subject_.global(r, 0), time_.begin() + subject_.global(r + 1, 0));
    }
    return timeline;
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

Timeline time_steps(const Subject& subject, const Links& links) { return Timing(subject, links).run(); }

}  // namespace verification

Timeline time_steps(std::span<const Plan> plans) {
  using namespace verification;
  std::vector<Violation> ignored;
  Findings findings(ignored, 0);
  const Subject subject(plans, 1);
  return time_steps(subject, link(subject, findings));
}

}  // namespace unisono::plan

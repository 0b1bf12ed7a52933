/// The verifier against an oracle that shares nothing with it: plans are damaged at random and run step by step in random
/// order on lists of contributions. What the verifier passes must give the right result in every schedule.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <tuple>

#include "plan/layout.h"
#include "plan/registry.h"
#include "plan/verify.h"

namespace unisono::plan {
namespace {

using Random = std::mt19937;
using Contributions = std::vector<std::pair<std::int32_t, std::int32_t>>;  // (rank, extent), sorted; empty: garbage

std::size_t below(Random& random, std::size_t n) { return random() % n; }

class Machine {
 public:
  Machine(const std::vector<Plan>& plans, bool in_place)
      : plans_(plans), in_place_(in_place), done_(plans.size()), results_(plans.size()) {
    for (std::size_t r = 0; r < plans.size(); r++) {
      const auto rank = static_cast<std::int32_t>(r);
      done_[r].assign(plans[r].steps.size(), false);
      for (std::size_t b = 0; b < plans[r].in_extent.size(); b++) {
        cell(rank, {Space::in, -1, static_cast<std::int32_t>(b), 1}, 0) = {{rank, plans[r].in_extent[b]}};
      }
    }
  }

  // False when the ranks are stuck.
  bool run(Random& random) {
    for (;;) {
      const auto ready = ready_steps();
      if (ready.empty()) break;
      const auto [rank, step] = ready[below(random, ready.size())];
      execute(rank, step);
      for (std::int32_t r = 0; r < static_cast<std::int32_t>(plans_.size()); r++) end(r);
    }
    return std::ranges::all_of(done_, [](const auto& steps) { return std::ranges::find(steps, false) == steps.end(); });
  }

  bool results_are_right() {
    const auto n = static_cast<std::int32_t>(plans_.size());
    for (std::int32_t r = 0; r < n; r++) {
      const Plan& p = plan(r);
      for (std::size_t b = 0; b < p.out_extent.size(); b++) {
        Contributions expected;
        const std::int32_t extent = p.out_extent[b];
        for (std::int32_t q = 0; q < n; q++) {
          const auto& in = plan(q).in_extent;
          const bool has = std::ranges::find(in, extent) != in.end();
          if (has) expected.push_back({q, extent});
        }
        const auto& results = results_[static_cast<std::size_t>(r)];
        if (!results || (*results)[b] != expected) return false;
      }
    }
    return true;
  }

 private:
  using Place = std::tuple<std::int32_t, Space, std::int32_t>;
  using StepAt = std::pair<std::int32_t, std::size_t>;

  const Plan& plan(std::int32_t rank) const { return plans_[static_cast<std::size_t>(rank)]; }

  Contributions& cell(std::int32_t rank, const Ref& ref, std::int32_t offset) {
    const std::int32_t owner = has_owner(ref.space) ? ref.rank : rank;
    const Space space = ref.space == Space::peer_in ? Space::in : ref.space == Space::peer_out ? Space::out : ref.space;
    Place place{owner, space, ref.first + offset};
    if (in_place_ && space == Space::in) {
      for (const auto& pair : aliased_blocks(plan(owner))) {
        if (pair.in == ref.first + offset) place = {owner, Space::out, pair.out};
      }
    }
    return memory_[place];
  }

  // When a rank's last step is done its caller takes the results and uses the buffers for something else.
  void end(std::int32_t rank) {
    auto& results = results_[static_cast<std::size_t>(rank)];
    const auto& done = done_[static_cast<std::size_t>(rank)];
    if (results || std::ranges::find(done, false) != done.end()) return;
    results.emplace();
    const Plan& p = plan(rank);
    for (std::size_t b = 0; b < p.out_extent.size(); b++) {
      results->push_back(cell(rank, {Space::out, -1, static_cast<std::int32_t>(b), 1}, 0));
    }
    for (const Space space : {Space::in, Space::out}) {
      for (std::size_t b = 0; b < p.extents_of(space).size(); b++) {
        cell(rank, {space, -1, static_cast<std::int32_t>(b), 1}, 0) = {{-2, -2}};
      }
    }
  }

  bool may_start(std::int32_t rank, std::size_t s) const {
    const Plan& p = plan(rank);
    const auto& done = done_[static_cast<std::size_t>(rank)];
    for (const std::uint32_t dep : p.waits_for(p.steps[s])) {
      if (!done[dep]) return false;
    }
    for (std::size_t i = 0; i < s; i++) {
      if (p.steps[i].lane == p.steps[s].lane && !done[i]) return false;
    }
    return true;
  }

  // The step at the other end of a message: the k-th recv (send) of the peer where this is the k-th send (recv).
  std::optional<std::size_t> counterpart(std::int32_t rank, std::size_t s) const {
    const Step& step = plan(rank).steps[s];
    std::size_t k = 0;
    for (std::size_t i = 0; i < s; i++) {
      const Step& other = plan(rank).steps[i];
      k += other.op == step.op && other.peer == step.peer && other.channel == step.channel ? 1 : 0;
    }
    const OpCode wanted = step.op == OpCode::send ? OpCode::recv : OpCode::send;
    const auto& peer = plan(step.peer).steps;
    for (std::size_t i = 0; i < peer.size(); i++) {
      if (peer[i].op == wanted && peer[i].peer == rank && peer[i].channel == step.channel && k-- == 0) return i;
    }
    return std::nullopt;
  }

  bool ready(std::int32_t rank, std::size_t s) const {
    if (done_[static_cast<std::size_t>(rank)][s] || !may_start(rank, s)) return false;
    const Step& step = plan(rank).steps[s];
    if (step.op == OpCode::recv) return false;  // happens with its send
    if (step.op == OpCode::send) {
      const auto recv = counterpart(rank, s);
      return recv && may_start(step.peer, *recv);
    }
    if (step.op != OpCode::wait) return true;
    const auto& peer = plan(step.peer).steps;
    for (std::size_t i = 0; i < peer.size(); i++) {
      if (peer[i].op == OpCode::signal && peer[i].channel == step.channel)
        return done_[static_cast<std::size_t>(step.peer)][i];
    }
    return false;
  }

  std::vector<StepAt> ready_steps() const {
    std::vector<StepAt> steps;
    for (std::int32_t r = 0; r < static_cast<std::int32_t>(plans_.size()); r++) {
      for (std::size_t s = 0; s < plan(r).steps.size(); s++) {
        if (ready(r, s)) steps.push_back({r, s});
      }
    }
    return steps;
  }

  void execute(std::int32_t rank, std::size_t s) {
    const Plan& p = plan(rank);
    const Step& step = p.steps[s];
    done_[static_cast<std::size_t>(rank)][s] = true;
    std::vector<Contributions> data;
    if (step.op == OpCode::reduce) {
      for (std::int32_t i = 0; i < p.dst(step).front().count; i++) {
        Contributions sum;
        for (const Ref& ref : p.src(step)) {
          const Contributions& part = cell(rank, ref, i);
          sum.insert(sum.end(), part.begin(), part.end());
          if (part.empty()) sum.push_back({-1, -1});
        }
        std::ranges::sort(sum);
        data.push_back(sum);
      }
    } else {
      for (const Ref& ref : p.src(step)) {
        for (std::int32_t i = 0; i < ref.count; i++) data.push_back(cell(rank, ref, i));
      }
    }
    if (step.op != OpCode::send) {
      for (const Ref& ref : p.dst(step)) {
        for (std::int32_t i = 0; i < ref.count; i++) cell(rank, ref, i) = data[static_cast<std::size_t>(i)];
      }
      return;
    }
    const std::size_t recv = *counterpart(rank, s);
    done_[static_cast<std::size_t>(step.peer)][recv] = true;
    std::size_t next = 0;
    for (const Ref& ref : plan(step.peer).dst(plan(step.peer).steps[recv])) {
      for (std::int32_t i = 0; i < ref.count && next < data.size(); i++) cell(step.peer, ref, i) = data[next++];
    }
  }

  const std::vector<Plan>& plans_;
  bool in_place_;
  std::vector<std::vector<bool>> done_;
  std::vector<std::optional<std::vector<Contributions>>> results_;  // by rank, once it has ended
  std::map<Place, Contributions> memory_;
};

// One small damage; what it is follows from `random`.
void damage(std::vector<Plan>& plans, Random& random) {
  Plan& plan = plans[below(random, plans.size())];
  if (plan.steps.empty()) return;
  Step& step = plan.steps[below(random, plan.steps.size())];
  const auto n = static_cast<std::int32_t>(plans.size());
  switch (below(random, 7)) {
    case 0:
      step.dep_count = 0;
      break;
    case 1:
      if (step.dep_count > 0) step.dep_count--;
      break;
    case 2:
      if (!plan.refs.empty()) plan.refs[below(random, plan.refs.size())].first += random() % 2 == 0 ? 1 : -1;
      break;
    case 3:
      if (step.peer >= 0) step.peer = static_cast<std::int32_t>(below(random, static_cast<std::size_t>(n)));
      break;
    case 4:
      step.lane = static_cast<std::uint16_t>(below(random, plan.lanes));
      break;
    case 5:
      if (step.op == OpCode::wait && step.channel > 0) step.channel--;
      break;
    default: {
      Step& other = plan.steps[below(random, plan.steps.size())];
      std::swap(step.src_begin, other.src_begin);
      std::swap(step.src_count, other.src_count);
      break;
    }
  }
}

TEST(RandomSchedules, UndamagedPlansAreRightInAnyOrder) {
  Random random(1);
  for (const Algorithm& algorithm : algorithms()) {
    for (const std::int32_t n : {2, 3, 4, 5, 6}) {
      const auto plans = build_all(algorithm, n, rooted(algorithm.collective) ? n / 2 : 0);
      for (int run = 0; run < 6; run++) {
        Machine machine(plans, run % 2 == 0);
        ASSERT_TRUE(machine.run(random)) << name_of(algorithm.collective) << " " << algorithm.name << " n=" << n;
        ASSERT_TRUE(machine.results_are_right())
            << name_of(algorithm.collective) << " " << algorithm.name << " n=" << n;
      }
    }
  }
}

TEST(RandomSchedules, WhatTheVerifierPassesIsRightInAnyOrder) {
  Random random(2);
  int passed = 0, refused = 0, wrong = 0;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective == Collective::barrier) continue;  // has no results to look at
    for (int mutant = 0; mutant < 80; mutant++) {
      const auto n = static_cast<std::int32_t>(2 + below(random, 4));
      auto plans = build_all(
          algorithm, n,
          rooted(algorithm.collective) ? static_cast<std::int32_t>(below(random, static_cast<std::size_t>(n))) : 0);
      damage(plans, random);
      const Report report = verify(plans);
      if (report.ok()) {
        passed++;
        for (int run = 0; run < 6; run++) {
          Machine machine(plans, run % 2 == 0);
          ASSERT_TRUE(machine.run(random)) << name_of(algorithm.collective) << " " << algorithm.name << " n=" << n;
          ASSERT_TRUE(machine.results_are_right())
              << name_of(algorithm.collective) << " " << algorithm.name << " n=" << n;
        }
      } else {
        refused++;
        if (report.has(Fault::malformed) || report.has(Fault::extents) || report.has(Fault::message)) continue;
        Machine machine(plans, true);
        wrong += machine.run(random) && machine.results_are_right() ? 0 : 1;
      }
    }
  }
  // Both kinds must be there in numbers, or the test shows nothing.
  EXPECT_GT(passed, 200);
  EXPECT_GT(refused, 500);
  EXPECT_GT(wrong, 50);
}

}  // namespace
}  // namespace unisono::plan

#include "engine/fold.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "plan/host_map.h"
#include "plan/patterns.h"
#include "plan/verify.h"

namespace unisono::engine {
namespace {

using plan::OpCode;
using plan::Plan;
using plan::PlanBuilder;
using plan::Ref;
using plan::Step;

/// The plan as it runs when its foldings are used, for the verifier: a reduce that is folded follows its recv at once, in the recv's lane, and the
/// recv waits for what has to be done then. In the reduce's own place, where others count on it, is a copy onto itself that waits for it.
class Rewriter {
 public:
  Rewriter(const Plan& plan, std::span<const Folding> foldings)
      : plan_(plan), foldings_(foldings), folded_(plan.steps.size()), renumbered_(plan.steps.size()) {
    for (const Folding& folding : foldings)
      if (folding.reduce >= 0) folded_[static_cast<std::size_t>(folding.reduce)] = true;
  }

  Plan run() {
    result_ = plan_;
    result_.steps.clear();
    result_.deps.clear();
    for (std::uint32_t i = 0; i < plan_.steps.size(); i++) {
      std::vector<std::uint32_t> deps = renumbered(plan_.waits_for(plan_.steps[i]));
      Step step = plan_.steps[i];
      if (folded_[i]) {  // the marker
        step = with_refs(step, {plan_.dst(step)[0]}, {plan_.dst(step)[0]});
        step.op = OpCode::copy;
        step.final = false;
        deps.push_back(done_[i]);
      }
      const std::int32_t sum = foldings_.empty() ? -1 : foldings_[i].reduce;
      if (sum >= 0)
        for (const std::uint32_t earlier : renumbered(foldings_[i].after)) deps.push_back(earlier);
      renumbered_[i] = add(step, deps);
      if (sum < 0) continue;
      Step now = plan_.steps[static_cast<std::size_t>(sum)];
      now.lane = step.lane;
      done_[static_cast<std::uint32_t>(sum)] = add(now, {});
    }
    return std::move(result_);
  }

 private:
  std::vector<std::uint32_t> renumbered(std::span<const std::uint32_t> steps) const {
    std::vector<std::uint32_t> list;
    for (const std::uint32_t s : steps) list.push_back(renumbered_[s]);
    return list;
  }
  Step with_refs(Step step, const std::vector<Ref>& dst, const std::vector<Ref>& src) {
    step.dst_begin = static_cast<std::uint32_t>(result_.refs.size());
    step.dst_count = static_cast<std::uint32_t>(dst.size());
    result_.refs.insert(result_.refs.end(), dst.begin(), dst.end());
    step.src_begin = static_cast<std::uint32_t>(result_.refs.size());
    step.src_count = static_cast<std::uint32_t>(src.size());
    result_.refs.insert(result_.refs.end(), src.begin(), src.end());
    return step;
  }
  std::uint32_t add(Step step, const std::vector<std::uint32_t>& deps) {
    step.dep_begin = static_cast<std::uint32_t>(result_.deps.size());
    step.dep_count = static_cast<std::uint32_t>(deps.size());
    result_.deps.insert(result_.deps.end(), deps.begin(), deps.end());
    result_.steps.push_back(step);
    return static_cast<std::uint32_t>(result_.steps.size() - 1);
  }

  const Plan& plan_;
  std::span<const Folding> foldings_;
  std::vector<bool> folded_;
  std::vector<std::uint32_t> renumbered_;
  std::map<std::uint32_t, std::uint32_t> done_;
  Plan result_;
};

/// `change`: what becomes of each folding.
template <class Change>
plan::Report verify_folded(const std::vector<Plan>& plans, Change&& change) {
  std::vector<Plan> folded;
  for (const Plan& plan : plans) {
    std::vector<Folding> found = find_foldings(plan);
    for (Folding& folding : found)
      if (folding.reduce >= 0) change(plan, folding);
    folded.push_back(Rewriter(plan, found).run());
  }
  return plan::verify(folded);
}

bool behind_a_send(const Plan& plan, const Folding& folding) {
  return std::ranges::any_of(folding.after, [&](std::uint32_t s) { return plan.steps[s].op == OpCode::send; });
}

TEST(Folding, EveryPlanIsProvedAsItRunsThen) {
  int foldings = 0;
  for (const plan::Algorithm& a : plan::algorithms()) {
    if (!reduces(a.collective) || a.place == plan::Place::several_nodes) continue;
    for (std::int32_t n = 1; n <= 9; n++) {
      const auto layouts =
          a.place == plan::Place::several_hosts ? plan::sample_hosts(n) : std::vector<std::vector<std::int32_t>>(1);
      for (const auto& hosts : layouts)
        for (const std::int32_t root : {0, n - 1}) {
          if (root > 0 && !rooted(a.collective)) continue;
          const auto plans = plan::build_all(a, plan::Shape{n, 0, root, hosts});
          const std::string what = fmt::format("{} {} among {}, root {}", name_of(a.collective), a.name, n, root);
          const plan::Report all = verify_folded(plans, [&](const auto&, const auto&) { foldings++; });
          // To wait for a send may take for ever; that is why no receive does.
          for (const auto& v : all.violations) ASSERT_EQ(v.fault, plan::Fault::deadlock) << what << v.text;
          const plan::Report rest = verify_folded(plans, [](const Plan& plan, Folding& folding) {
            if (behind_a_send(plan, folding)) folding = {};
          });
          ASSERT_EQ(rest.text(), "") << what;
        }
    }
  }
  EXPECT_GT(foldings, 500);
}

TEST(Folding, BeforeWhatTheSumWaitsForItWouldBeARace) {
  const auto* doubling = plan::find_algorithm(Collective::all_reduce, "recursive_doubling");
  const plan::Report report =
      verify_folded(plan::build_all(*doubling, 8, 0), [](const auto&, Folding& folding) { folding.after.clear(); });
  EXPECT_TRUE(report.has(plan::Fault::race)) << report.text();
}

int count_of(std::string_view algorithm, std::int32_t ranks, std::int32_t rank) {
  const auto found = find_foldings(plan::find_algorithm(Collective::all_reduce, algorithm)->build({ranks, rank, 0}));
  return static_cast<int>(std::ranges::count_if(found, [](const Folding& f) { return f.reduce >= 0; }));
}

TEST(Folding, WhatArrivesAloneIsReducedAsItComes) {
  EXPECT_EQ(count_of("ring", 5, 2), 4);
  EXPECT_EQ(count_of("recursive_doubling", 8, 3), 3);
  EXPECT_EQ(count_of("recursive_doubling", 6, 0), 3) << "the folded rank's, too";
  EXPECT_EQ(count_of("binomial", 4, 0), 2) << "a child's and the other root's";
  EXPECT_EQ(count_of("binomial", 3, 0), 0) << "two children's, of which nobody knows which is the last";
  EXPECT_EQ(count_of("direct", 4, 1), 0);
  EXPECT_EQ(count_of("direct", 2, 1), 1);
  EXPECT_EQ(count_of("staged_two_shot", 4, 1), 0);
}

TEST(Folding, WhatOthersReadIsStoredFirst) {
  PlanBuilder b(Collective::all_reduce, "test", {2, 0, 0});
  const Ref arrived = b.new_scratch(0), other = b.new_scratch(0);
  b.recv(1, arrived);
  b.reduce(other, {PlanBuilder::in(0), arrived}, true);
  b.reduce(PlanBuilder::out(0), {arrived, other}, true);
  EXPECT_TRUE(find_foldings(std::move(b).build()).empty());
}

TEST(Folding, NothingMayComeBetweenTheMessageAndItsSum) {
  PlanBuilder b(Collective::all_reduce, "test", {2, 0, 0});
  const Ref arrived = b.new_scratch(0), own = b.new_scratch(0);
  b.recv(1, arrived);
  b.copy(own, PlanBuilder::in(0));
  b.reduce(PlanBuilder::out(0), {own, arrived}, true);
  EXPECT_TRUE(find_foldings(std::move(b).build()).empty()) << "the copy would have to be first";
}

TEST(Fold, EveryPlaceIsReducedWithItsOwn) {
  std::vector<float> left(100), out(100, -1), arrived(40);
  for (std::size_t i = 0; i < left.size(); i++) left[i] = static_cast<float>(i);
  for (std::size_t i = 0; i < arrived.size(); i++) arrived[i] = static_cast<float>(1000 * i);
  Fold fold;
  fold.what = {DType::f32, ReduceOp::sum, 2};
  fold.results = {reinterpret_cast<std::byte*>(out.data())};
  fold.operands = {reinterpret_cast<const std::byte*>(left.data()), nullptr};
  fold.add(30 * sizeof(float), std::as_bytes(std::span(arrived)));
  for (std::size_t i = 0; i < out.size(); i++)
    EXPECT_EQ(out[i], i < 30 || i >= 70 ? -1.F : (static_cast<float>(i) + static_cast<float>(1000 * (i - 30))) / 2);
}

}  // namespace
}  // namespace unisono::engine

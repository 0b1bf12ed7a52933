#include "engine/compiled.h"

#include <gtest/gtest.h>

#include "plan/builder.h"
#include "plan/registry.h"

namespace unisono::engine {
namespace {

using plan::PlanBuilder;

TEST(Compiled, AReceiveIsPostedAheadUnlessOneBeforeItWritesToTheSamePlace) {
  PlanBuilder b(Collective::all_gather, "test", {4, 0, 0});
  const plan::Ref spare = b.new_scratch(0);
  const auto first = b.recv(1, PlanBuilder::out(1));
  const auto second = b.recv(1, PlanBuilder::out(2));
  const auto third = b.recv(1, spare);
  const auto again = b.recv(1, spare);
  const auto behind = b.recv(1, PlanBuilder::out(3));
  const auto other = b.recv(2, PlanBuilder::out(0));
  const auto sent = b.send(1, PlanBuilder::in(0));
  const Compiled c = compile(std::move(b).build());
  EXPECT_FALSE(c.ahead[first]) << "there is nothing that it could be ahead of";
  EXPECT_TRUE(c.ahead[second]);
  EXPECT_TRUE(c.ahead[third]);
  EXPECT_FALSE(c.ahead[again]);
  EXPECT_TRUE(c.ahead[behind]);
  EXPECT_FALSE(c.ahead[other]);
  EXPECT_FALSE(c.ahead[sent]);
  EXPECT_EQ(c.places[behind], 4u);
}

TEST(Compiled, WhatArrivesHasItsTurnFirstAndWhatLeavesLast) {
  PlanBuilder b(Collective::all_gather, "test", {2, 0, 0});
  const auto sent = b.send(1, PlanBuilder::in(0));
  const auto copied = b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
  const auto received = b.recv(1, PlanBuilder::out(1));
  const Compiled c = compile(std::move(b).build());
  const auto& steps = c.plan.steps;
  EXPECT_EQ(c.turns, (std::vector<std::uint16_t>{steps[received].lane, steps[copied].lane, steps[sent].lane}));
}

TEST(Compiled, AStraightPlanReceivesOnlyWhereNothingElseCanBeDone) {
  PlanBuilder b(Collective::all_gather, "test", {4, 0, 0});
  const auto received = b.recv(1, PlanBuilder::out(1));
  const auto passed_on = b.send(2, PlanBuilder::out(1));
  const auto later = b.recv(2, PlanBuilder::out(2));
  const auto copied = b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
  const auto sent = b.send(3, PlanBuilder::in(0));
  EXPECT_EQ(compile(std::move(b).build()).straight, (std::vector{copied, sent, received, passed_on, later}));
}

/// Who waits for messages has to look for them in every round (group::Progress::wait), whoever else only now and then.
TEST(Compiled, PlansOfMessagesAreKnown) {
  for (const plan::Algorithm& a : plan::algorithms()) {
    if (a.place == plan::Place::several_hosts) continue;  // by both
    const bool by_messages = a.place == plan::Place::network;
    const Compiled c = compile(a.build({5, 1, rooted(a.collective) ? 2 : 0}));
    EXPECT_EQ(c.messages, by_messages) << name_of(a.collective) << " " << a.name;
  }
}

/// Of every algorithm: each step once, behind what it waits for and what its lane has before it.
TEST(Compiled, StraightPlansKeepTheOrderOfTheirSteps) {
  int plans = 0;
  for (const plan::Algorithm& a : plan::algorithms())
    for (std::int32_t rank = 0; rank < 7; rank++) {
      const Compiled c = compile(a.build({7, rank, rooted(a.collective) ? 2 : 0}));
      if (c.plan.staged || c.plan.shared || c.plan.steps.size() > 64) {
        EXPECT_TRUE(c.straight.empty()) << a.name;
        continue;
      }
      ASSERT_EQ(c.straight.size(), c.plan.steps.size()) << a.name;
      std::vector<std::uint32_t> next(c.lanes.size());
      for (const std::uint32_t step : c.straight) {
        const plan::Step& s = c.plan.steps[step];
        for (const std::uint32_t dep : c.plan.waits_for(s))
          EXPECT_LT(c.places[dep], next[c.plan.steps[dep].lane]) << a.name << ", rank " << rank;
        EXPECT_EQ(c.places[step], next[s.lane]++) << a.name << ", rank " << rank;
      }
      plans++;
    }
  EXPECT_GT(plans, 100);
}

TEST(Compiled, CopiesFromTheSamePlaceGoTogether) {
  PlanBuilder b(Collective::broadcast, "test", {3, 0, 0}, 3);
  b.share({plan::kExposesIn | plan::kExposesOut, plan::kExposesOut, plan::kExposesOut});
  const auto own = b.copy(PlanBuilder::out(1), PlanBuilder::in(1));
  const auto put = b.put(b.out_of(1, 1), PlanBuilder::in(1));
  const auto last = b.put(b.out_of(2, 1), PlanBuilder::in(1));
  const auto other = b.put(b.out_of(2, 0), PlanBuilder::in(0));
  b.signal(0);
  const auto behind = b.put(b.out_of(1, 0), PlanBuilder::in(0));
  const Compiled c = compile(std::move(b).build());
  const auto together = [&](std::uint32_t step) {
    const auto steps = c.together(step);
    return std::vector(steps.begin(), steps.end());
  };
  EXPECT_EQ(together(own), (std::vector{own, put, last}));
  EXPECT_EQ(together(put), (std::vector{put, last}));
  EXPECT_EQ(together(last), std::vector{last});
  EXPECT_EQ(together(other), std::vector{other}) << "what is behind the signal may not be done before it";
  EXPECT_EQ(together(behind), std::vector{behind});
}

}  // namespace
}  // namespace unisono::engine

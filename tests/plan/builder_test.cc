/// What the builder infers from sequential-looking code: lanes, dependencies, merged gather lists.

#include "plan/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "plan/layout.h"
#include "plan/verify.h"
#include "plan/verify_internal.h"

namespace unisono::plan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::uint32_t> deps(const Plan& plan, StepId step) {
  const auto all = plan.waits_for(plan.steps[step]);
  return {all.begin(), all.end()};
}

PlanBuilder all_reduce(std::int32_t ranks, std::int32_t rank, std::int32_t blocks) {
  return {Collective::all_reduce, "test", {ranks, rank, 0}, blocks};
}

TEST(Builder, GivesEachPeerAndDirectionItsOwnLane) {
  auto b = all_reduce(4, 0, 1);
  const Ref buffer = b.new_scratch(0);
  b.send(1, PlanBuilder::in(0));
  b.send(2, PlanBuilder::in(0));
  b.recv(1, buffer);
  b.send(1, PlanBuilder::in(0));
  b.copy(PlanBuilder::out(0), buffer);
  const Plan plan = std::move(b).build();
  EXPECT_EQ(plan.steps[0].lane, plan.steps[3].lane);
  EXPECT_NE(plan.steps[0].lane, plan.steps[1].lane);
  EXPECT_NE(plan.steps[0].lane, plan.steps[2].lane);
  EXPECT_EQ(plan.steps[4].lane, 0);
  EXPECT_EQ(plan.lanes, 4);
}

TEST(Builder, SharesLanesWhenTheirNumberIsLimited) {
  auto b = all_reduce(8, 0, 1);
  b.limit_lanes(2);
  for (std::int32_t peer = 1; peer < 6; peer++) b.send(peer, PlanBuilder::in(0));
  const Plan plan = std::move(b).build();
  EXPECT_EQ(plan.lanes, 3);
  EXPECT_EQ(plan.steps[0].lane, plan.steps[2].lane);
  EXPECT_EQ(plan.steps[1].lane, plan.steps[3].lane);
}

TEST(Builder, AReaderWaitsForTheWriter) {
  auto b = all_reduce(2, 0, 1);
  const Ref buffer = b.new_scratch(0);
  const StepId recv = b.recv(1, buffer);
  const StepId sum = b.reduce(PlanBuilder::out(0), {PlanBuilder::in(0), buffer}, true);
  const Plan plan = std::move(b).build();
  EXPECT_THAT(deps(plan, recv), IsEmpty());
  EXPECT_THAT(deps(plan, sum), ElementsAre(recv));
}

TEST(Builder, AWriterWaitsForTheReaders) {
  auto b = all_reduce(3, 0, 1);
  const Ref buffer = b.new_scratch(0);
  b.copy(buffer, PlanBuilder::in(0));
  const StepId first = b.send(1, buffer);
  const StepId second = b.send(2, buffer);
  const StepId recv = b.recv(1, buffer);
  const Plan plan = std::move(b).build();
  EXPECT_THAT(deps(plan, recv), testing::IsSupersetOf({first, second}));
}

TEST(Builder, TheLatestStepOfALaneStandsForTheEarlierOnes) {
  auto b = all_reduce(2, 0, 2);
  const Ref buffer = b.new_scratch(0), other = b.new_scratch(1);
  b.recv(1, buffer);
  const StepId second = b.recv(1, other);
  const StepId send = b.send(1, {buffer, other});
  const Plan plan = std::move(b).build();
  EXPECT_THAT(deps(plan, send), ElementsAre(second));
}

TEST(Builder, StepsOfOneLaneNeedNoDependency) {
  auto b = all_reduce(2, 0, 1);
  const Ref buffer = b.new_scratch(0);
  b.copy(buffer, PlanBuilder::in(0));
  b.copy(PlanBuilder::out(0), buffer);
  EXPECT_THAT(std::move(b).build().deps, IsEmpty());
}

TEST(Builder, OutputWaitsForReadersOfTheInputThatMayBeTheSameMemory) {
  auto b = all_reduce(2, 0, 2);
  const StepId send = b.send(1, PlanBuilder::in(1));
  const StepId own = b.recv(1, PlanBuilder::out(1));
  const StepId other = b.recv(1, PlanBuilder::out(0));
  const Plan plan = std::move(b).build();
  EXPECT_THAT(deps(plan, own), ElementsAre(send));
  EXPECT_THAT(deps(plan, other), IsEmpty());
}

TEST(Builder, ACopyOntoItselfInPlaceIsNotHeldUp) {
  PlanBuilder b(Collective::broadcast, "test", {3, 0, 0});
  b.send(1, PlanBuilder::in(0));
  const StepId copy = b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
  const StepId reader = b.send(2, PlanBuilder::out(0));
  const Plan plan = std::move(b).build();
  EXPECT_THAT(deps(plan, copy), IsEmpty());
  EXPECT_THAT(deps(plan, reader), ElementsAre(copy));
}

TEST(Builder, AfterOrdersWhatNoDataOrders) {
  PlanBuilder b(Collective::barrier, "test", {3, 0, 0});
  const StepId heard = b.recv(1, {});
  const StepId told = b.send(2, {});
  b.after(heard);
  const Plan plan = std::move(b).build();
  EXPECT_THAT(deps(plan, told), ElementsAre(heard));
}

TEST(Builder, ASignalWaitsForWhatAMessageBroughtToTheStage) {
  auto b = all_reduce(2, 0, 1);
  b.stage_extents({0});
  const Ref buffer = b.new_scratch(0);
  const StepId recv = b.recv(1, buffer);
  const StepId put = b.put(0, buffer);
  b.signal(0);
  const Plan plan = std::move(b).build();
  EXPECT_THAT(deps(plan, put), ElementsAre(recv));
  EXPECT_TRUE(plan.staged);
  EXPECT_EQ(plan.channels, 1);
}

TEST(RefList, MergesNeighboursButNotStages) {
  RefList list{PlanBuilder::in(0), PlanBuilder::in(1, 2), PlanBuilder::in(4), PlanBuilder::out(5)};
  EXPECT_THAT(list.refs(), ElementsAre(PlanBuilder::in(0, 3), PlanBuilder::in(4), PlanBuilder::out(5)));
  EXPECT_THAT(RefList({PlanBuilder::stage(1, 0), PlanBuilder::stage(1, 1)}).refs(), SizeIs(2));
}

TEST(RefList, WrapsBehindTheLastRank) {
  const auto b = all_reduce(5, 0, 5);
  EXPECT_THAT(b.wrapped(Space::out, 3, 4).refs(), ElementsAre(PlanBuilder::out(3, 2), PlanBuilder::out(0, 2)));
  EXPECT_THAT(b.wrapped(Space::out, 0, 5).refs(), ElementsAre(PlanBuilder::out(0, 5)));
  EXPECT_THAT(b.wrapped(Space::out, 4, 0).refs(), IsEmpty());
}

TEST(Layout, IsThatOfTheContract) {
  EXPECT_EQ(layout_of(Collective::all_to_all, {3, 1, 0}, 1), (Layout{9, {3, 4, 5}, {1, 4, 7}}));
  EXPECT_EQ(layout_of(Collective::broadcast, {3, 1, 0}, 2), (Layout{2, {}, {0, 1}}));
  EXPECT_EQ(layout_of(Collective::gather, {3, 2, 2}, 1), (Layout{3, {2}, {0, 1, 2}}));
  EXPECT_EQ(layout_of(Collective::barrier, {3, 2, 0}, 1), (Layout{0, {}, {}}));
}

// Random straight-line programs: whatever is written, the builder leaves no race. The verifier knows nothing of how the
// builder works.
TEST(Builder, LeavesNoRaceInRandomPrograms) {
  std::mt19937 random(20240607);
  const auto below = [&](std::int32_t n) {
    return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(n));
  };
  std::size_t dependencies = 0;
  for (int program = 0; program < 300; program++) {
    auto b = all_reduce(5, 0, 3);
    std::vector<Ref> writable, readable;
    for (std::int32_t i = 0; i < 3; i++) {
      writable.push_back(b.new_scratch(i));
      writable.push_back(PlanBuilder::out(i));
      readable.push_back(PlanBuilder::in(i));
    }
    readable.insert(readable.end(), writable.begin(), writable.end());
    const auto some = [&](const std::vector<Ref>& refs) {
      return refs[static_cast<std::size_t>(below(static_cast<std::int32_t>(refs.size())))];
    };
    for (int step = 0; step < 25; step++) {
      switch (below(4)) {
        case 0:
          b.send(1 + below(4), some(readable));
          break;
        case 1:
          b.recv(1 + below(4), some(writable));
          break;
        case 2:
          b.copy(some(writable), some(readable));
          break;
        default:
          b.reduce(some(writable), {some(readable), some(readable)}, false);
          break;
      }
    }
    const Plan plan = std::move(b).build();
    dependencies += plan.deps.size();
    std::vector<Violation> violations;
    verification::Findings findings(violations, 4);
    check_local_order(verification::Subject(std::span(&plan, 1), 1), findings);
    ASSERT_THAT(violations, IsEmpty()) << "program " << program << ": " << violations.front().text;
  }
  EXPECT_GT(dependencies, 1000u);
}

}  // namespace
}  // namespace unisono::plan

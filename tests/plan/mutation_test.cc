/// Mistakes planted into correct plans: each must be found, and called by its name.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "plan/builder.h"
#include "plan/registry.h"
#include "plan/unroll.h"
#include "plan/verify.h"

namespace unisono::plan {
namespace {

using testing::HasSubstr;

std::vector<Plan> plans_of(Collective collective, std::string_view name, std::int32_t n, std::int32_t root = 0) {
  return build_all(*find_algorithm(collective, name), n, root);
}

Step& find_step(Plan& plan, OpCode op, int which = 0) {
  for (Step& step : plan.steps) {
    if (step.op == op && which-- == 0) return step;
  }
  throw std::logic_error("the plan has no such step");
}
Ref& source(Plan& plan, const Step& step, std::uint32_t i = 0) { return plan.refs[step.src_begin + i]; }
Ref& destination(Plan& plan, const Step& step, std::uint32_t i = 0) { return plan.refs[step.dst_begin + i]; }

// Takes a step out; what waited for it waits for what it waited for.
void erase_step(Plan& plan, const Step& step) {
  const auto index = static_cast<std::uint32_t>(&step - plan.steps.data());
  std::vector<std::uint32_t> deps;
  std::vector<Step> steps;
  for (std::uint32_t i = 0; i < plan.steps.size(); i++) {
    if (i == index) continue;
    Step kept = plan.steps[i];
    kept.dep_begin = static_cast<std::uint32_t>(deps.size());
    kept.dep_count = 0;
    const auto add = [&](std::uint32_t dep) {
      deps.push_back(dep > index ? dep - 1 : dep);
      kept.dep_count++;
    };
    for (const std::uint32_t dep : plan.waits_for(plan.steps[i])) {
      if (dep != index) {
        add(dep);
      } else {
        for (const std::uint32_t before : plan.waits_for(plan.steps[index])) add(before);
      }
    }
    steps.push_back(kept);
  }
  plan.steps = steps;
  plan.deps = deps;
}

// Asserts that verify() reports `fault`, and that the report has `words` (which rank, step and block).
void expect_fault(const std::vector<Plan>& plans, Fault fault, std::string_view words, std::int32_t slices = 1) {
  VerifyOptions options;
  options.slices = slices;
  const Report report = verify(plans, options);
  EXPECT_TRUE(report.has(fault)) << "expected " << name_of(fault) << ", found:\n" << report.text();
  EXPECT_THAT(report.text(), HasSubstr(std::string(words)));
}

TEST(PlantedMistakes, TheUnharmedPlansAreProved) {
  EXPECT_EQ(verify(plans_of(Collective::all_reduce, "ring", 4)).text(), "");
  EXPECT_EQ(verify(plans_of(Collective::all_reduce, "staged_two_shot", 4)).text(), "");
}

TEST(PlantedMistakes, WrongPeerLeavesAMessageWithoutAReceiver) {
  auto plans = plans_of(Collective::all_reduce, "ring", 4);
  find_step(plans[1], OpCode::send).peer = 3;
  expect_fault(plans, Fault::message, "rank 1 step 0 (send in[0] to 3): nobody receives this message");
}

TEST(PlantedMistakes, PeerOutsideTheGroupIsMalformed) {
  auto plans = plans_of(Collective::all_reduce, "ring", 4);
  find_step(plans[2], OpCode::recv).peer = 4;
  expect_fault(plans, Fault::malformed, "rank 2 step 1 (recv): peer 4 is not another rank");
}

TEST(PlantedMistakes, OperandOutsideTheSpaceIsMalformed) {
  auto plans = plans_of(Collective::all_reduce, "ring", 4);
  source(plans[0], find_step(plans[0], OpCode::send)).first = 4;
  expect_fault(plans, Fault::malformed, "rank 0 step 0 (send): an operand names blocks that do not exist");
}

TEST(PlantedMistakes, DependencyOnALaterStepIsMalformed) {
  auto plans = plans_of(Collective::all_reduce, "ring", 4);
  Step& reduce = find_step(plans[0], OpCode::reduce);
  plans[0].deps[reduce.dep_begin] = static_cast<std::uint32_t>(plans[0].steps.size() - 1);
  expect_fault(plans, Fault::malformed, "which is not listed before it");
}

TEST(PlantedMistakes, MissingDependencyIsARace) {
  auto plans = plans_of(Collective::all_reduce, "ring", 4);
  find_step(plans[2], OpCode::reduce).dep_count = 0;
  expect_fault(
      plans, Fault::race,
      "rank 2 step 1 (recv scratch[0] from 1) and rank 2 step 2 (reduce scratch[0] = scratch[0] + in[0]) both touch "
      "scratch[0]");
}

TEST(PlantedMistakes, MissingDependencyThatOnlyMattersInPlaceIsARace) {
  // Rank 0 sends its input to rank 1 in the first round and receives a result into out[1], the same memory in place.
  auto plans = plans_of(Collective::all_reduce, "circulant", 2);
  for (Step& step : plans[0].steps) {
    if (step.op == OpCode::recv) step.dep_count = 0;
  }
  expect_fault(plans, Fault::race, "both touch out[1] and nothing orders them");
}

TEST(PlantedMistakes, DoubledBlockIsADoubledContribution) {
  auto plans = plans_of(Collective::all_reduce, "staged_one_shot", 3);
  Step& reduce = find_step(plans[1], OpCode::reduce);
  source(plans[1], reduce, 2) = source(plans[1], reduce, 0);
  expect_fault(plans, Fault::doubled_contribution, "adds what rank 0 contributed twice");
  expect_fault(plans, Fault::final_reduce, "is final, but rank 2 is not in the sum yet");
}

TEST(PlantedMistakes, DroppedContributionIsAWrongResult) {
  auto plans = plans_of(Collective::all_reduce, "staged_one_shot", 3);
  find_step(plans[2], OpCode::reduce).src_count = 2;
  expect_fault(plans, Fault::wrong_result, "rank 2 out[0]: lacks the contribution of rank 2");
}

TEST(PlantedMistakes, ForgottenOutputIsAWrongResult) {
  auto plans = plans_of(Collective::broadcast, "binomial", 4);
  erase_step(plans[0], find_step(plans[0], OpCode::copy));
  expect_fault(plans, Fault::wrong_result, "rank 0 out[0]: was never written");
}

TEST(PlantedMistakes, OperandsOfSeveralLengthsAreMalformed) {
  // Its last block has none beside it: nothing may look for one.
  auto plans = plans_of(Collective::broadcast, "scatter_all_gather", 3);
  Step& copy = find_step(plans[0], OpCode::copy);
  destination(plans[0], copy).count = 3;
  source(plans[0], copy).first = 2;
  source(plans[0], copy).count = 1;
  expect_fault(plans, Fault::malformed, "are not as many blocks");
}

TEST(PlantedMistakes, BlockInTheWrongPlaceIsAWrongResult) {
  auto plans = plans_of(Collective::reduce_scatter, "staged", 3);
  source(plans[1], find_step(plans[1], OpCode::reduce), 0).first = 1;  // rank 0 staged block 2 there
  expect_fault(plans, Fault::extents, "rank 1");
}

TEST(PlantedMistakes, MissingSignalIsASignalFault) {
  auto plans = plans_of(Collective::all_reduce, "staged_two_shot", 4);
  erase_step(plans[3], find_step(plans[3], OpCode::signal, 1));
  expect_fault(plans, Fault::signal, "rank 3 signals channel 1 0 times instead of once");
  expect_fault(plans, Fault::deadlock, "which can never end");
}

TEST(PlantedMistakes, SignalTwiceIsASignalFault) {
  auto plans = plans_of(Collective::all_reduce, "staged_two_shot", 4);
  find_step(plans[3], OpCode::signal, 1).channel = 0;
  expect_fault(plans, Fault::signal, "rank 3 signals channel 0 2 times instead of once");
}

TEST(PlantedMistakes, SignalBeforeThePutIsARace) {
  auto plans = plans_of(Collective::all_gather, "staged", 3);
  std::swap(plans[1].steps[0], plans[1].steps[1]);  // put and signal
  expect_fault(plans, Fault::race, "no signal orders them");
}

TEST(PlantedMistakes, MissingWaitIsARaceOrAnUndefinedRead) {
  auto plans = plans_of(Collective::all_gather, "staged", 3);
  erase_step(plans[0], find_step(plans[0], OpCode::wait, 1));
  const Report report = verify(plans);
  EXPECT_TRUE(report.has(Fault::race) || report.has(Fault::undefined_read)) << report.text();
  EXPECT_THAT(report.text(), HasSubstr("stage@2[0]"));
}

TEST(PlantedMistakes, WrongOrderOfTheFoldGivesUnequalTrees) {
  auto plans = plans_of(Collective::all_reduce, "recursive_doubling", 4);
  Step& reduce = find_step(plans[2], OpCode::reduce, 1);
  std::swap(source(plans[2], reduce, 0), source(plans[2], reduce, 1));
  expect_fault(plans, Fault::unequal_trees, "rank 2 out[0]: was reduced in another order");
}

TEST(PlantedMistakes, WriteToTheInputIsFound) {
  auto plans = plans_of(Collective::reduce, "binomial", 4);
  Step& reduce = find_step(plans[2], OpCode::reduce);
  destination(plans[2], reduce) = PlanBuilder::in(0);
  expect_fault(plans, Fault::writes_input, "writes to in[0], but the input belongs to the caller");
}

TEST(PlantedMistakes, SendingScratchThatNobodyWroteIsAnUndefinedRead) {
  auto plans = plans_of(Collective::reduce, "binomial", 4);
  plans[3].scratch_extent.push_back(0);
  source(plans[3], find_step(plans[3], OpCode::send)) = {Space::scratch, -1, 0, 1};
  expect_fault(plans, Fault::undefined_read,
               "rank 3 step 0 (send scratch[0] to 2): reads scratch[0] before anything is there");
}

TEST(PlantedMistakes, SwappedMessagesDifferInExtents) {
  auto plans = plans_of(Collective::all_gather, "ring", 4);
  std::swap(source(plans[1], find_step(plans[1], OpCode::send, 0)),
            source(plans[1], find_step(plans[1], OpCode::send, 1)));
  expect_fault(plans, Fault::message, "their extents differ");
}

TEST(PlantedMistakes, MissingFinalIsFound) {
  auto plans = plans_of(Collective::all_reduce, "staged_two_shot", 3);
  find_step(plans[1], OpCode::reduce).final = false;
  expect_fault(plans, Fault::final_reduce, "rank 0 out[1]: passed 0 final reduces");
}

TEST(PlantedMistakes, FinalTooEarlyIsFound) {
  auto plans = plans_of(Collective::all_reduce, "recursive_doubling", 4);
  find_step(plans[0], OpCode::reduce).final = true;
  expect_fault(plans, Fault::final_reduce, "is final, but rank 2, 3 is not in the sum yet");
}

TEST(PlantedMistakes, EarlyReuseOfAStageIsARace) {
  // The owner writes its sum over a place that others have not read yet: rank 1's contribution to block 0.
  auto plans = plans_of(Collective::all_reduce, "staged_two_shot", 3);
  destination(plans[1], find_step(plans[1], OpCode::reduce), 1) = PlanBuilder::stage(1, 0);
  const Report report = verify(plans);
  EXPECT_TRUE(report.has(Fault::extents)) << report.text();
  EXPECT_TRUE(report.has(Fault::race)) << report.text();
}

TEST(PlantedMistakes, OnlySumsGoBackToAnotherRanksStage) {
  auto plans = plans_of(Collective::all_reduce, "staged_return", 3);
  EXPECT_EQ(verify(plans).text(), "");
  destination(plans[1], find_step(plans[1], OpCode::put)) = PlanBuilder::stage(2, 2);
  expect_fault(plans, Fault::malformed, "rank 1 step 0 (put stage@2[2] = in[2]): writes to the stage of another rank");

  plans = plans_of(Collective::all_reduce, "staged_return", 3);
  destination(plans[1], find_step(plans[1], OpCode::reduce), 2) = PlanBuilder::stage(2, 0);  // it has read [1] there
  expect_fault(plans, Fault::malformed, "writes to the stage of another rank what is no sum of what lies there");
}

TEST(PlantedMistakes, ASumThatGoesBackTooEarlyOrIsTakenTooEarlyIsARace) {
  auto plans = plans_of(Collective::all_reduce, "staged_return", 3);
  erase_step(plans[0], find_step(plans[0], OpCode::wait, 0));
  expect_fault(plans, Fault::race, "no signal orders them");

  plans = plans_of(Collective::all_reduce, "staged_return", 3);
  erase_step(plans[0], find_step(plans[0], OpCode::wait, 2));  // the first one for sums
  expect_fault(plans, Fault::race, "no signal orders them");
}

TEST(PlantedMistakes, NextSliceMustNotEnterTheStageBeforeAllAreDone) {
  std::vector<Plan> unrolled;
  Unrolling how{2, 1, false};
  for (const Plan& plan : plans_of(Collective::broadcast, "staged", 3)) unrolled.push_back(unroll(plan, how));
  expect_fault(unrolled, Fault::race, "stage@0[0]", 2);

  unrolled.clear();
  how.wait_for_done = true;
  for (const Plan& plan : plans_of(Collective::broadcast, "staged", 3)) unrolled.push_back(unroll(plan, how));
  VerifyOptions options;
  options.slices = 2;
  EXPECT_EQ(verify(unrolled, options).text(), "");
}

TEST(PlantedMistakes, LeavingBeforeAllAreDoneIsFound) {
  // Rank 1 does not wait for rank 2, which may then still write the sum of its block to rank 1's output.
  auto plans = plans_of(Collective::all_reduce, "shared", 3);
  erase_step(plans[1], find_step(plans[1], OpCode::wait, 1));
  expect_fault(plans, Fault::early_end,
               "rank 1 ends, and its caller has out[2] back, while rank 2 step 0 (reduce peer_out@0[2], peer_out@1[2]");

  // The same where others only read.
  plans = plans_of(Collective::broadcast, "shared", 3, 1);
  erase_step(plans[1], find_step(plans[1], OpCode::wait, 0));
  expect_fault(plans, Fault::early_end, "rank 1 ends, and its caller has in[0] back, while rank 0 step 0 (get out[0]");
}

TEST(PlantedMistakes, SignalBeforeTheLastReadEndsPeersTooEarly) {
  auto plans = plans_of(Collective::all_gather, "shared", 3);
  Step& last_get = find_step(plans[0], OpCode::get, 1);
  Step& signal = find_step(plans[0], OpCode::signal);
  std::swap(last_get, signal);
  expect_fault(plans, Fault::early_end, "rank 2 ends, and its caller has in[0] back, while rank 0");
}

TEST(PlantedMistakes, TwoOwnersOfOneBlockAreARace) {
  auto plans = plans_of(Collective::all_reduce, "shared", 3);
  Step& reduce = find_step(plans[2], OpCode::reduce);
  for (std::uint32_t i = 0; i < 3; i++) {
    source(plans[2], reduce, i).first = 0;
    destination(plans[2], reduce, i).first = 0;
  }
  expect_fault(plans, Fault::race, "touches");
  expect_fault(plans, Fault::wrong_result, "out[2]: was never written");
}

TEST(PlantedMistakes, WritingWhileAnotherReadsInPlaceIsARace) {
  // Rank 0 writes its own output before it has copied what rank 1 reads from there in place.
  auto plans = plans_of(Collective::all_gather, "shared", 2);
  Step& copy = find_step(plans[0], OpCode::copy);
  destination(plans[0], copy).first = 1;
  destination(plans[0], find_step(plans[0], OpCode::get)).first = 0;
  expect_fault(plans, Fault::race, "rank 1");
}

TEST(PlantedMistakes, BuffersThatAreNotExposedAreMalformed) {
  auto plans = plans_of(Collective::all_reduce, "shared", 3);
  for (Plan& plan : plans) plan.exposed[2] = kExposesIn;
  expect_fault(plans, Fault::malformed, "peer_out@2[0] is not exposed");
  plans = plans_of(Collective::all_reduce, "shared", 3);
  plans[1].exposed[2] = 0;
  expect_fault(plans, Fault::layout, "rank 1 and rank 0 disagree on which buffers are exposed");
}

TEST(PlantedMistakes, AReductionThatOthersCannotDoAPartOfIsNotJoint) {
  // Rank 2 folds in another order, in which a helper's sums would have other bits.
  auto plans = plans_of(Collective::all_reduce, "shared", 3);
  Step& reduce = find_step(plans[2], OpCode::reduce);
  std::swap(source(plans[2], reduce, 0), source(plans[2], reduce, 1));
  expect_fault(plans, Fault::joint, "rank 2 step 0 (reduce");

  plans = plans_of(Collective::reduce, "shared", 3);
  plans[1].joint = false;
  expect_fault(plans, Fault::joint, "rank 1 and rank 0 disagree on whether the plan is a joint one");

  // Everybody's output is its own.
  plans = plans_of(Collective::reduce_scatter, "shared", 3);
  EXPECT_EQ(verify(plans).text(), "");
  for (Plan& plan : plans) plan.joint = true;
  expect_fault(plans, Fault::joint, "rank 1 step 0 (reduce out[0]");

  plans = plans_of(Collective::all_reduce, "staged_two_shot", 3);
  for (Plan& plan : plans) plan.joint = true;
  expect_fault(plans, Fault::joint, "only a shared plan can be a joint one");
}

TEST(PlantedMistakes, WritingToTheInputOfAnotherIsFound) {
  auto plans = plans_of(Collective::gather, "shared", 3);
  destination(plans[1], find_step(plans[1], OpCode::put)) = {Space::peer_in, 0, 0, 1};
  expect_fault(plans, Fault::writes_input, "writes to peer_in@0[0]");
}

TEST(PlantedMistakes, SendsBeforeReceivesInOneLaneDeadlock) {
  // Everybody sends to the right and only then receives from the left, which needs buffers that nobody promised.
  auto plans = plans_of(Collective::all_gather, "ring", 3);
  for (Plan& plan : plans) {
    for (Step& step : plan.steps) step.lane = 0;
  }
  expect_fault(plans, Fault::deadlock, "waits for");
}

TEST(PlantedMistakes, BarrierThatForgetsARankIsAWrongResult) {
  auto plans = plans_of(Collective::barrier, "dissemination", 4);
  for (Step& step : plans[1].steps) step.dep_count = 0;
  expect_fault(plans, Fault::wrong_result, "leaves the barrier without knowing that rank");
}

TEST(PlantedMistakes, StagesOfDifferentSizesAreASignalFault) {
  auto plans = plans_of(Collective::all_gather, "staged", 3);
  plans[2].stage_extent.push_back(2);
  expect_fault(plans, Fault::signal, "rank 2 has 2 stage blocks and 1 channels, rank 0 has 1 and 1");
}

TEST(PlantedMistakes, LayoutOfAnotherCollectiveIsFound) {
  auto plans = plans_of(Collective::all_gather, "ring", 3);
  plans[1].out_extent[2] = 1;
  expect_fault(plans, Fault::layout, "rank 1's input or output blocks are not those of all_gather");
}

TEST(PlantedMistakes, ClosedFormThatLiesIsFound) {
  const auto plans = plans_of(Collective::all_reduce, "ring", 4);
  const Cost lie{5, 1.5};
  VerifyOptions options;
  options.expected = &lie;
  EXPECT_EQ(verify(plans, options).text(),
            "cost: the closed form says 5 steps and 1.5 S a rank, the plans have 6 steps and 1.5 S\n");
}

TEST(PlantedMistakes, PlansWithoutTheirDependenciesAreNeverProved) {
  for (const Algorithm& algorithm : algorithms()) {
    auto plans = build_all(algorithm, 5, 2 % (rooted(algorithm.collective) ? 5 : 1));
    std::size_t dropped = 0;
    for (Plan& plan : plans) {
      for (Step& step : plan.steps) {
        dropped += step.dep_count;
        step.dep_count = 0;
      }
    }
    if (dropped > 0) {
      EXPECT_FALSE(verify(plans).ok()) << name_of(algorithm.collective) << " " << algorithm.name;
    }
  }
}

}  // namespace
}  // namespace unisono::plan

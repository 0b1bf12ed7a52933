/// Plans with partial sums in wide scratch. That they compute what they should, verify() proves
/// with every algorithm.

#include "plan/widened.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plan/builder.h"
#include "plan/verify.h"

namespace unisono::plan {
namespace {

std::vector<Plan> all_widened(const Algorithm& algorithm, const Shape& shape) {
  std::vector<Plan> plans = build_all(algorithm, shape);
  for (Plan& plan : plans) plan = widened(plan);
  return plans;
}

/// Of the blocks that all ranks send, how many are wide, and how many are not.
struct Sent {
  int wide = 0, narrow = 0;
};
Sent sent(const std::vector<Plan>& plans) {
  Sent blocks;
  for (const Plan& plan : plans)
    for (const Step& step : plan.steps)
      if (step.op == OpCode::send)
        for (const Ref& ref : plan.src(step))
          for (std::int32_t b = ref.first; b < ref.first + ref.count; b++)
            (plan.is_wide(ref.space, b) ? blocks.wide : blocks.narrow)++;
  return blocks;
}

TEST(Widened, WholeSumsTravelAs16Bits) {
  const Sent blocks = sent(all_widened(*find_algorithm(Collective::all_reduce, "ring"), {8}));
  EXPECT_EQ(blocks.wide, 7 * 8);
  EXPECT_EQ(blocks.narrow, 7 * 8);
}

TEST(Widened, EverySumIsWide) {
  for (const Algorithm& a : algorithms()) {
    if (!a.has_partial_sums(5) || needs_one_host(a.place)) continue;
    Shape shape{5, 0, 2};
    if (a.place == Place::several_hosts) shape.hosts = {0, 0, 1, 1, 0};
    for (const Plan& plan : all_widened(a, shape))
      for (const Step& step : plan.steps) {
        if (step.op != OpCode::reduce) continue;
        for (const Ref& ref : plan.src(step)) EXPECT_TRUE(plan.is_wide(ref.space, ref.first)) << a.name;
      }
  }
}

TEST(Widened, ARowThatHidesPartialSumsIsFound) {
  Algorithm ring = *find_algorithm(Collective::all_reduce, "ring");
  ring.traits = Traits::none;
  const Report report = verify(ring, Shape{3}, false);
  EXPECT_TRUE(report.has(Fault::final_reduce));
  EXPECT_NE(report.text().find("does not say partial_sums"), std::string::npos) << report.text();
}

TEST(Widened, WidthsThatDifferAreFound) {
  std::vector<Plan> plans = all_widened(*find_algorithm(Collective::all_reduce, "ring"), {3});
  ASSERT_TRUE(verify(plans).ok()) << verify(plans).text();
  std::vector<Plan> wrong = plans;
  wrong[1].wide.assign(wrong[1].wide.size(), 0);  // its messages are half as long as the others'
  EXPECT_TRUE(verify(wrong).has(Fault::message));
  wrong = plans;
  for (const Step& step : wrong[0].steps)
    if (step.op == OpCode::reduce) wrong[0].wide[static_cast<std::size_t>(wrong[0].src(step)[0].first)] = 0;
  EXPECT_TRUE(verify(wrong).has(Fault::malformed));
}

}  // namespace
}  // namespace unisono::plan

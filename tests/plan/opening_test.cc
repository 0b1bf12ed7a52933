#include "plan/opening.h"

#include <gtest/gtest.h>

#include "plan/builder.h"
#include "plan/patterns.h"
#include "plan/registry.h"
#include "plan/verify.h"

namespace unisono::plan {
namespace {

Plan built(Collective collective, const char* algorithm, const Shape& shape) {
  return find_algorithm(collective, algorithm)->build(shape);
}

TEST(Opening, IsTheCopiesBeforeTheFirstSignalOrWait) {
  const Shape shape{4, 1};
  EXPECT_EQ(opening(built(Collective::all_to_all, "shared", shape)), 4u);
  EXPECT_EQ(opening(built(Collective::all_to_all, "single_copy", shape)), 4u);
  EXPECT_EQ(opening(built(Collective::all_gather, "shared", shape)), 4u);
  EXPECT_EQ(opening(built(Collective::all_gather, "shared_by_owner", shape)), 0u) << "all from the same place";
  EXPECT_EQ(opening(built(Collective::all_reduce, "shared", shape)), 0u) << "no copies";
  EXPECT_EQ(opening(built(Collective::scatter, "shared", shape)), 0u) << "a single one";
  EXPECT_EQ(opening(built(Collective::all_to_all, "staged", shape)), 0u) << "not shared";
}

TEST(Opening, IsTurned) {
  const Plan plan = built(Collective::all_to_all, "shared", {3, 0}), turned = with_opening_turned(plan);
  ASSERT_EQ(turned.steps.size(), plan.steps.size());
  for (std::size_t i = 0; i < plan.steps.size(); i++) EXPECT_EQ(turned.steps[i], plan.steps[i < 3 ? 2 - i : i]) << i;
  EXPECT_EQ(with_opening_turned(turned).steps, plan.steps);
}

/// An all_gather whose second copy reads what the first has written: right, as long as they run in that order.
Plan in_a_fixed_order(const Shape& shape) {
  const std::int32_t other = 1 - shape.rank;
  PlanBuilder b(Collective::all_gather, "fixed", shape);
  share_all(b, kExposesIn | kExposesOut);
  b.copy(PlanBuilder::out(shape.rank), PlanBuilder::in(0));
  b.put(b.out_of(other, shape.rank), PlanBuilder::out(shape.rank));
  b.signal(0);
  wait_for_others(b, 0);
  return std::move(b).build();
}

TEST(Opening, IsProvedInTheOppositeOrderToo) {
  const Algorithm fixed{
      Collective::all_gather, "fixed", Place::shared_buffers, "", "", Traits::none, in_a_fixed_order, [](const Shape&) {
        return Cost{1, 0.5};
      }};
  EXPECT_TRUE(verify(build_all(fixed, {2})).ok()) << verify(build_all(fixed, {2})).text();
  const Report report = verify(fixed, Shape{2}, false);
  EXPECT_TRUE(report.has(Fault::undefined_read)) << report.text();
  EXPECT_NE(report.text().find("with its first copies in the opposite order"), std::string::npos);
}

}  // namespace
}  // namespace unisono::plan

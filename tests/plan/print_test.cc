/// Plans as people and tools see them.

#include "plan/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "plan/draw.h"
#include "plan/registry.h"
#include "plan/timeline.h"
#include "plan/verify.h"

namespace unisono::plan {
namespace {

using testing::HasSubstr;
using testing::Not;

Plan plan_of(Collective collective, std::string_view name, const Shape& shape) {
  return find_algorithm(collective, name)->build(shape);
}

TEST(Print, TextOfASmallRing) {
  EXPECT_EQ(to_text(plan_of(Collective::all_reduce, "ring", {3, 1, 0})),
            R"(all_reduce ring, rank 1 of 3: 10 steps on 3 lanes
  in       extents 0..2
  out      extents 0..2
  scratch  extents 2 1
  step lane  what
     0    1  send in[0] to 2
     1    2  recv scratch[0] from 0
     2    0  reduce scratch[0] = scratch[0] + in[2]     after 1
     3    1  send scratch[0] to 2                       after 2
     4    2  recv scratch[1] from 0
     5    0  reduce out[1] = scratch[1] + in[1], final  after 4
     6    1  send out[1] to 2                           after 5
     7    2  recv out[0] from 0                         after 0
     8    1  send out[0] to 2                           after 7
     9    2  recv out[2] from 0                         after 2
)");
}

TEST(Print, TextOfAStagedPlan) {
  EXPECT_EQ(to_text(plan_of(Collective::all_reduce, "staged_two_shot", {3, 1, 0})),
            R"(all_reduce staged_two_shot, rank 1 of 3: 11 steps on 1 lane
  in       extents 0..2
  out      extents 0..2
  stage    extents 0..2
  step lane  what
     0    0  put stage@1[2] = in[2]
     1    0  put stage@1[0] = in[0]
     2    0  signal 0
     3    0  wait for 0 on 0
     4    0  wait for 2 on 0
     5    0  reduce out[1], stage@1[1] = stage@0[1] + in[1] + stage@2[1], final
     6    0  signal 1
     7    0  wait for 2 on 1
     8    0  get out[2] = stage@2[2]
     9    0  wait for 0 on 1
    10    0  get out[0] = stage@0[0]
)");
}

TEST(Print, JsonHoldsEveryStep) {
  const Plan plan = plan_of(Collective::broadcast, "binomial", {4, 2, 0});
  const auto json = to_json(plan);
  EXPECT_EQ(json["collective"], "broadcast");
  EXPECT_EQ(json["root"], 0);
  ASSERT_EQ(json["steps"].size(), plan.steps.size());
  EXPECT_EQ(json["steps"][0].dump(), R"({"op":"recv","lane":1,"peer":0,"channel":0,"dst":[["out",null,0,1]]})");
  EXPECT_EQ(json["steps"][1].dump(),
            R"({"op":"send","lane":2,"peer":3,"channel":0,"src":[["out",null,0,1]],"after":[0]})");
}

TEST(Timeline, OfARingIsOneMessageARound) {
  const auto plans = build_all(*find_algorithm(Collective::all_gather, "ring"), 4, 0);
  const Timeline timeline = time_steps(plans);
  EXPECT_EQ(timeline.length, 3);
  ASSERT_EQ(timeline.start.size(), 4u);
  ASSERT_EQ(plans[1].steps[1].op, OpCode::send);
  EXPECT_EQ(timeline.start[1][1], 0);
}

TEST(Draw, TextIsATableOfRounds) {
  EXPECT_EQ(draw_text(build_all(*find_algorithm(Collective::all_reduce, "recursive_doubling"), 2, 0)),
            R"(all_reduce recursive_doubling, 2 ranks: 1 round

round    rank 0     rank 1
1        to 1: 0    to 0: 0
         from 1: 0  from 0: 0
         = 0        = 0

numbers are blocks; + adds to a partial sum, = completes one
)");
}

TEST(Draw, SvgHasALaneForEachRankAndAnArrowForEachMessage) {
  const std::string svg = draw_svg(build_all(*find_algorithm(Collective::all_reduce, "ring"), 4, 0));
  for (const char* word : {"rank 0", "rank 3", "round 6", "= 2", "all_reduce ring, 4 ranks"})
    EXPECT_THAT(svg, HasSubstr(word));
  EXPECT_THAT(svg, Not(HasSubstr("rank 4")));
  std::size_t arrows = 0;
  for (std::size_t at = svg.find("<path"); at != std::string::npos; at = svg.find("<path", at + 1)) arrows++;
  EXPECT_EQ(arrows, 4u * 6u);
}

TEST(Draw, EveryAlgorithmCanBeDrawn) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const std::int32_t n : {1, 2, 5}) {
      const auto plans = build_all(algorithm, n, 0);
      EXPECT_THAT(draw_svg(plans), testing::EndsWith("</svg>\n")) << algorithm.name;
      EXPECT_THAT(draw_text(plans), HasSubstr(std::string(algorithm.name)));
    }
  }
}

}  // namespace
}  // namespace unisono::plan

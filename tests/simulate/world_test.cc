#include "simulate/world.h"

#include <gmock/gmock.h>

#include <numeric>

#include "plan/host_map.h"
#include "plan/verify.h"
#include "simulate/simulate.h"

namespace unisono::simulate {
namespace {

plan::Shape shape_of(std::int32_t ranks, std::int32_t per_host, std::int32_t root = 0) {
  plan::Shape shape{ranks, 0, root, {}};
  for (std::int32_t q = 0; q < ranks; q++) shape.hosts.push_back(q / per_host);
  return shape;
}

World world_of(Collective collective, const char* name, const plan::Shape& shape) {
  auto world = build_world(*plan::find_algorithm(collective, name), shape);
  EXPECT_TRUE(world.ok()) << world.status().message();
  return *world;
}

TEST(World, CountsTheMessagesOfEveryPlan) {
  for (const plan::Algorithm& algorithm : plan::algorithms()) {
    if (algorithm.place != plan::Place::network) continue;
    for (const std::int32_t n : {1, 2, 3, 7, 8, 12}) {
      std::int64_t sends = 0;
      for (const plan::Plan& p : plan::build_all(algorithm, n, 0))
        for (const plan::Step& step : p.steps) sends += step.op == plan::OpCode::send ? 1 : 0;
      EXPECT_EQ(world_of(algorithm.collective, algorithm.name.data(), shape_of(n, 1)).messages, sends)
          << name_of(algorithm.collective) << " " << algorithm.name << " " << n;
    }
  }
}

TEST(World, FindsTheSymmetryWhereThereIsOne) {
  EXPECT_EQ(world_of(Collective::all_reduce, "ring", shape_of(12, 1)).copies, 12);
  EXPECT_EQ(world_of(Collective::all_reduce, "circulant", shape_of(13, 1)).copies, 13);
  EXPECT_EQ(world_of(Collective::all_to_all, "bruck", shape_of(9, 3)).copies, 3);
  EXPECT_EQ(world_of(Collective::all_reduce, "hierarchical", shape_of(12, 3)).copies, 4);
  EXPECT_EQ(world_of(Collective::all_reduce, "recursive_doubling", shape_of(12, 1)).copies, 1);
  EXPECT_EQ(world_of(Collective::all_reduce, "binomial", shape_of(12, 1)).copies, 1);
  plan::Shape uneven = shape_of(12, 1);
  uneven.hosts = {0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 3};
  EXPECT_EQ(world_of(Collective::all_reduce, "ring", uneven).copies, 1);
}

TEST(World, RefusesWhatIsTooLarge) {
  const auto large = [](Collective c, const char* name, std::int32_t n) {
    const auto simulation = Simulation::make(*plan::find_algorithm(c, name), {n, 0, 0, {}}, *parse_model("10g"));
    return simulation ? std::string() : simulation.status().message();
  };
  EXPECT_THAT(large(Collective::all_to_all, "pairwise", 50'000), ::testing::HasSubstr("2^31"));
  EXPECT_THAT(large(Collective::all_reduce, "staged_two_shot", 2000), ::testing::HasSubstr("at most 1024"));
  EXPECT_THAT(large(Collective::broadcast, "scatter_all_gather", 100'000),
              ::testing::HasSubstr("simulate fewer ranks"));
}

}  // namespace
}  // namespace unisono::simulate

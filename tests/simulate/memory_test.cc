/// Hosts of several NUMA nodes: what goes over the links between them, and what that costs.

#include "simulate/memory.h"

#include <gmock/gmock.h>

#include "simulate/simulate.h"

namespace unisono::simulate {
namespace {

constexpr std::int64_t kS = 64 << 20;

Answer time_of(Collective collective, const char* name, std::int32_t ranks, const char* model, std::int64_t bytes = kS,
               std::vector<std::int32_t> nodes = {}) {
  plan::Shape shape{ranks};
  shape.hosts.resize(static_cast<std::size_t>(ranks), 0);
  shape.nodes = std::move(nodes);
  const auto simulation = Simulation::make(*plan::find_algorithm(collective, name), shape, *parse_model(model));
  EXPECT_TRUE(simulation.ok()) << simulation.status().message();
  const auto answer = simulation->time(bytes, {});
  EXPECT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_NEAR(answer->timing.path.total() / answer->timing.seconds, 1, 1e-9);
  return *answer;
}

TEST(Memory, A128RankAllReduceMovesTwiceTheVectorBetweenSocketsAndNot128Times) {
  const Answer flat = time_of(Collective::all_reduce, "staged_two_shot", 128, "numa:2x64");
  const Answer nodes = time_of(Collective::all_reduce, "staged_nodes", 128, "numa:2x64");
  EXPECT_NEAR(flat.timing.crossed / kS, 128, 1e-6);
  EXPECT_NEAR(nodes.timing.crossed / kS, 2, 1e-6);
  // Each way half of it, one after the other: no flat plan is faster than that.
  EXPECT_GE(flat.timing.seconds, 64.0 * kS / 64e9);
  EXPECT_THAT(flat.timing.busiest, testing::HasSubstr("link from node"));
  EXPECT_LT(nodes.timing.seconds, flat.timing.seconds / 2);
}

TEST(Memory, OnOneNodeNothingCrosses) {
  const Answer one = time_of(Collective::all_reduce, "staged_two_shot", 8, "numa:1x64", 1 << 20);
  EXPECT_EQ(one.timing.crossed, 0);
  const Answer sameside = time_of(Collective::all_reduce, "staged_two_shot", 4, "numa:2x64", 1 << 20, {1, 1, 1, 1});
  EXPECT_EQ(sameside.timing.crossed, 0);
}

TEST(Memory, AMemoryThatCanBeBusyTakesItsTime) {
  const char* model = "numa:1x2,memory=1GB/s";
  // The root puts and the other one gets: two reads and two writes of S.
  const Answer answer = time_of(Collective::broadcast, "staged", 2, model, 1 << 20);
  EXPECT_GE(answer.timing.seconds, 4.0 * (1 << 20) / 1e9 * 0.99);
  EXPECT_EQ(answer.timing.busiest, "memory of node 0");
}

TEST(Memory, MessagesBetweenNodesCrossToo) {
  const Answer ring = time_of(Collective::all_reduce, "ring", 8, "numa:2x4", 1 << 20);
  // Of 8 neighbours two are on different nodes; each sends 2 (n-1)/n S.
  EXPECT_NEAR(ring.timing.crossed / (1 << 20), 2 * 2 * 7.0 / 8, 1e-6);
}

TEST(Memory, TooManyRanksForTheCoresAreRefused) {
  plan::Shape shape{9};
  shape.hosts.assign(9, 0);
  const auto& algorithm = *plan::find_algorithm(Collective::all_reduce, "staged_nodes");
  EXPECT_FALSE(Simulation::make(algorithm, shape, *parse_model("numa:2x4")).ok());
  shape = {8};
  shape.hosts.assign(8, 0);
  EXPECT_TRUE(Simulation::make(algorithm, shape, *parse_model("numa:2x4")).ok());
  EXPECT_FALSE(Simulation::make(algorithm, shape, *parse_model("numa:1x8")).ok()) << "one node";
  shape.hosts = {0, 0, 0, 0, 1, 1, 1, 1};
  EXPECT_FALSE(
      Simulation::make(*plan::find_algorithm(Collective::all_reduce, "ring"), shape, *parse_model("numa:2x4")).ok());
}

TEST(Memory, ModelsAreText) {
  for (const char* text : {"numa:2x64", "numa:4x8,link=20GB/s,L=1us,memory=100GB/s", "10g+numa:2x2"}) {
    const auto model = parse_model(text);
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_EQ(*parse_model(to_text(*model)), *model) << to_text(*model);
  }
  for (const char* text : {"numa", "numa:2", "numa:0x4", "numa:2x4x8", "numa:2x64,bandwidth=3GB/s"})
    EXPECT_FALSE(parse_model(text).ok()) << text;
}

}  // namespace
}  // namespace unisono::simulate

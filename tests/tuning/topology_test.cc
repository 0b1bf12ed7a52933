/// The text that figures are kept under.

#include "tuning/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace unisono::tuning {
namespace {

using ::testing::HasSubstr;

const std::vector<Place> kTwoByTwo = {{"a", "X1", 2, 0}, {"a", "X1", 1, 0}, {"b", "X2", 1, 1}, {"b", "X2", 4, 1}};

TEST(Topology, SaysVersionLayoutAndHosts) {
  EXPECT_EQ(describe("1.2.3", "mixed", kTwoByTwo),
            "unisono 1.2.3 over mixed\nranks 0x2 1x2\nhost 0 a: X1, 2 cores\nhost 1 b: X2, 1 core\n");
}

TEST(Topology, ChangesWithEverythingThatMatters) {
  const std::string text = describe("1", "mixed", kTwoByTwo);
  EXPECT_EQ(describe("1", "mixed", kTwoByTwo), text);
  EXPECT_NE(describe("2", "mixed", kTwoByTwo), text);
  EXPECT_NE(describe("1", "tcp", kTwoByTwo), text);
  for (const auto& change : std::vector<std::function<void(std::vector<Place>&)>>{
           [](auto& p) { p[0].host = "c"; }, [](auto& p) { p[2].processor = "X3"; }, [](auto& p) { p[0].cores = 3; },
           [](auto& p) { std::swap(p[1].machine, p[2].machine); }, [](auto& p) { p.pop_back(); }}) {
    auto places = kTwoByTwo;
    change(places);
    EXPECT_NE(describe("1", "mixed", places), text);
    EXPECT_NE(key_of(describe("1", "mixed", places)), key_of(text));
  }
}

TEST(Topology, SaysWhichNodesWhereRanksKnow) {
  auto places = kTwoByTwo;
  for (Place& place : places) place.machine = 0;
  const std::string without = describe("1", "shm", places);
  places[0].node = places[1].node = 1;
  places[2].node = places[3].node = 0;
  const std::string with = describe("1", "shm", places);
  EXPECT_THAT(with, HasSubstr("ranks 0x4\nnodes 1x2 0x2\nhost 0"));
  EXPECT_EQ(nodes_of(with), (std::vector<std::int32_t>{1, 1, 0, 0}));
  EXPECT_EQ(hosts_of(with), (std::vector<std::int32_t>{0, 0, 0, 0}));
  EXPECT_TRUE(several_nodes(with));
  EXPECT_TRUE(nodes_of(without).empty());
  EXPECT_FALSE(several_nodes(without));
  places[3].node = -1;
  EXPECT_FALSE(several_nodes(describe("1", "shm", places))) << "one does not know";
  places.resize(3);
  places[0].node = 3;
  EXPECT_FALSE(several_nodes(describe("1", "shm", places))) << "one rank on each";
}

TEST(Topology, RunsOfRanksAreShort) {
  EXPECT_EQ(layout_text(std::vector<std::int32_t>(128, 0)), "0x128");
  EXPECT_EQ(layout_text(std::vector<std::int32_t>{0, 1, 0, 1, 1}), "0x1 1x1 0x1 1x2");
}

TEST(Topology, TellsItsLayoutBack) {
  EXPECT_EQ(hosts_of(describe("1", "mixed", kTwoByTwo)), (std::vector<std::int32_t>{0, 0, 1, 1}));
  EXPECT_TRUE(hosts_of("nothing of the kind").empty());
}

TEST(Topology, KeysAreTheSameEverywhere) { EXPECT_EQ(key_of(""), "cbf29ce484222325"); }

TEST(Topology, TheProcessorIsOneLine) {
  EXPECT_FALSE(this_processor().empty());
  EXPECT_THAT(this_processor(), ::testing::Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace unisono::tuning

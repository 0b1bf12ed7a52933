#include "simulate/topology.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "simulate/model.h"

namespace unisono::simulate {
namespace {

Topology topology(const std::string& text) { return parse_model("10g+" + text)->topology; }

std::vector<LinkId> way(const Topology& t, std::int32_t from, std::int32_t to) {
  std::vector<LinkId> links;
  route(t, from, to, links);
  return links;
}

/// How many messages meet on the busiest link when every host sends to the one `shift` on.
std::int64_t busiest(const Topology& t, std::int64_t shift) {
  std::vector<std::int64_t> load(static_cast<std::size_t>(link_count(t)), 0);
  const auto hosts = static_cast<std::int32_t>(capacity(t));
  for (std::int32_t h = 0; h < hosts; h++)
    for (const LinkId link : way(t, h, static_cast<std::int32_t>((h + shift) % hosts))) load[link]++;
  return *std::max_element(load.begin(), load.end());
}

TEST(Topology, EveryLinkIsPartOfSomeWayAndNoWayUsesOneTwice) {
  for (const char* text : {"fat-tree:k=4", "dragonfly:a=4,h=2,p=2", "torus:4x3x2", "torus:5"}) {
    const Topology t = topology(text);
    const auto hosts = static_cast<std::int32_t>(capacity(t));
    std::set<LinkId> used;
    for (std::int32_t a = 0; a < hosts; a++) {
      EXPECT_TRUE(way(t, a, a).empty());
      for (std::int32_t b = 0; b < hosts; b++) {
        const auto links = way(t, a, b);
        EXPECT_EQ(std::set<LinkId>(links.begin(), links.end()).size(), links.size()) << text << " " << a << " to " << b;
        used.insert(links.begin(), links.end());
      }
    }
    ASSERT_FALSE(used.empty());
    EXPECT_LT(*used.rbegin(), link_count(t));
    std::set<std::string> names;
    for (const LinkId link : used) names.insert(link_name(t, link));
    EXPECT_EQ(names.size(), used.size()) << text;
  }
}

TEST(Topology, WaysHaveTheLengthsOfTheirPapers) {
  const Topology tree = topology("fat-tree:k=4");
  EXPECT_EQ(capacity(tree), 16);
  EXPECT_EQ(way(tree, 0, 1).size(), 0u);   // one edge switch
  EXPECT_EQ(way(tree, 0, 2).size(), 2u);   // one pod
  EXPECT_EQ(way(tree, 0, 15).size(), 4u);  // over a core
  const Topology fly = topology("dragonfly:a=4,h=2,p=2");
  EXPECT_EQ(capacity(fly), 72);
  std::size_t longest = 0;
  for (std::int32_t to = 0; to < 72; to++) longest = std::max(longest, way(fly, 0, to).size());
  EXPECT_EQ(longest, 3u);
  const Topology grid = topology("torus:8x8");
  EXPECT_EQ(way(grid, 0, 7).size(), 1u);  // the other way round
  EXPECT_EQ(way(grid, 0, 4 + 8 * 4).size(), 8u);
  EXPECT_EQ(way(grid, 0, 9).size(), 2u);
}

TEST(Topology, DragonflyCablesLeadBothWays) {
  const Topology fly = topology("dragonfly:a=2,h=2,p=1");  // 5 groups of 2 hosts
  for (std::int32_t a = 0; a < 10; a++)
    for (std::int32_t b = 0; b < 10; b++) EXPECT_EQ(way(fly, a, b).size(), way(fly, b, a).size()) << a << " " << b;
}

TEST(Topology, ShiftsDoNotCollideInAFullFatTree) {
  const Topology tree = topology("fat-tree:k=6");
  for (std::int64_t shift = 1; shift < capacity(tree); shift++) EXPECT_LE(busiest(tree, shift), 1) << shift;
}

TEST(Topology, NeighboursOnATorusDoNotCollide) {
  EXPECT_EQ(busiest(topology("torus:4x4x4"), 1), 1);
  EXPECT_GT(busiest(topology("torus:8x8"), 3), 1);
}

}  // namespace
}  // namespace unisono::simulate

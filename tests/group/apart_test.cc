#include "group/apart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

namespace unisono::group {
namespace {

using Neighbours = std::vector<engine::Messenger::Neighbour>;

PeerId id(std::uint64_t number) { return {.high = number, .low = 0}; }

const std::vector<int> kFour{0, 1, 2, 3};

TEST(WayOut, TheLeastOfThoseOnAProcessorStays) {
  const Neighbours higher{{id(9), 0}}, lower{{id(1), 0}};
  EXPECT_EQ(way_out(0, id(5), higher, kFour, 0), std::nullopt);
  EXPECT_EQ(way_out(0, id(5), lower, kFour, 0), 1);
}

TEST(WayOut, NobodyMovesForWhoIsElsewhereOrHasNotSaid) {
  const Neighbours others{{id(1), 1}, {id(2), -1}};
  EXPECT_EQ(way_out(0, id(5), others, kFour, 0), std::nullopt);
}

TEST(WayOut, NotWhereAnotherRankWaitsNorWhereItMayNotRun) {
  const Neighbours others{{id(1), 2}, {id(2), 3}, {id(3), 0}};
  EXPECT_EQ(way_out(2, id(5), others, kFour, 0), 1);
  EXPECT_EQ(way_out(2, id(5), others, std::vector{0, 2, 3}, 0), std::nullopt) << "all are taken";
  EXPECT_EQ(way_out(2, id(5), others, std::vector{2}, 0), std::nullopt) << "it is bound";
}

TEST(WayOut, AllOfSeveralOnOneProcessorGoToDifferentOnes) {
  std::vector<PeerId> ranks;
  for (std::uint64_t i = 1; i <= 4; i++) ranks.push_back(id(i));
  std::set<int> taken;
  for (const PeerId& self : ranks) {
    Neighbours others;
    for (const PeerId& other : ranks)
      if (other != self) others.push_back({other, 3});
    const auto there = way_out(3, self, others, kFour, 0);
    EXPECT_EQ(there.has_value(), self != ranks.front());
    if (there) {
      EXPECT_TRUE(taken.insert(*there).second) << *there;
    }
  }
  EXPECT_EQ(taken.size(), 3u);
}

TEST(WayOut, WhoGoesAgainGoesElsewhere) {
  const Neighbours lower{{id(1), 0}};
  std::set<int> seen;
  for (std::uint32_t n = 0; n < 3; n++) seen.insert(way_out(0, id(5), lower, kFour, n).value());
  EXPECT_EQ(seen, (std::set<int>{1, 2, 3}));
}

}  // namespace
}  // namespace unisono::group

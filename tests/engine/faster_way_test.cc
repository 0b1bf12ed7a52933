/// Which of two ways is taken.

#include "engine/faster_way.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace unisono::engine {
namespace {

/// Of `pieces` pieces, how many went way 1, where the two ways take these times.
int second_of(FasterWay& ways, int pieces, double first, double second) {
  int count = 0;
  for (int i = 0; i < pieces; i++) {
    const std::size_t way = ways.next();
    ways.note(way == 0 ? first : second);
    count += static_cast<int>(way);
  }
  return count;
}

TEST(FasterWay, TakesTheFasterOneAndTriesTheOtherAgain) {
  FasterWay first, second;
  const int of_first = second_of(first, 1000, 1.0, 1.2), of_second = second_of(second, 1000, 1.2, 1.0);
  EXPECT_GT(of_first, 15) << "tried again";
  EXPECT_LT(of_first, 40);
  EXPECT_GT(of_second, 960);
  EXPECT_LT(of_second, 985) << "tried again";
}

TEST(FasterWay, ChangesItsMind) {
  FasterWay ways;
  second_of(ways, 1000, 1.0, 1.2);
  second_of(ways, 800, 1.2, 1.0);
  EXPECT_GT(second_of(ways, 100, 1.2, 1.0), 90);
}

TEST(FasterWay, TriesAMuchSlowerOneMoreRarely) {
  FasterWay ways, hopeless;
  second_of(ways, 100, 1.0, 2.0);
  const int tries = second_of(ways, 20480, 1.0, 2.0);
  EXPECT_GE(tries, 72) << "every 256th: twice as long, so that all of it takes a 256th longer";
  EXPECT_LE(tries, 88);
  second_of(hopeless, 100, 1.0, 1000.0);
  EXPECT_GE(second_of(hopeless, 81920, 1.0, 1000.0), 72) << "however slow it was";
}

TEST(FasterWay, IgnoresPiecesThatWereInterrupted) {
  FasterWay ways;
  int count = 0;
  for (int i = 0; i < 1000; i++) {
    const std::size_t way = ways.next();
    ways.note((way == 0 ? 1.2 : 1.0) * (i % 3 == 0 ? 100 : 1));
    count += static_cast<int>(way);
  }
  EXPECT_GT(count, 900);
}

TEST(FasterWay, SeesWhoPaysForWhatAWayLeaves) {
  FasterWay ways;
  std::size_t last =
      0;  // what a piece of way 1 has stored is still on its way to memory, and whoever comes next waits for it
  int count = 0;
  for (int i = 0; i < 1000; i++) {
    const std::size_t way = ways.next();
    ways.note(1.0 - 0.05 * static_cast<double>(way) + 0.3 * static_cast<double>(last));
    last = way;
    count += static_cast<int>(way == 1 && i >= 500);
  }
  EXPECT_LT(count, 50) << "single pieces of way 1 are the faster ones, and all of them the slower ones";
}

}  // namespace
}  // namespace unisono::engine

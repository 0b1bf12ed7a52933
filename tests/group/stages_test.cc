/// Groups of one process that run one after another, and at once, on stages that they share.

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "unisono/unisono.hpp"

namespace unisono {
namespace {

constexpr std::size_t kCount = 30000;  // several slices

/// Four sums, each checked.
void sums(const Group& group, std::int64_t first) {
  const std::int64_t n = group.size();
  for (std::int64_t i = first; i < first + 4; i++) {
    std::vector<std::int64_t> x(kCount, group.rank() + i);
    group.all_reduce(std::span(x));
    for (const auto v : x) ASSERT_EQ(v, n * i + n * (n - 1) / 2);
  }
}

TEST(Stages, AHundredGroupsOneAfterAnother) {
  spawn_threads(3, [](Group world) {
    std::vector<Group> groups;
    for (int i = 0; i < 100; i++) groups.push_back(world.split(0));
    for (int round = 0; round < 3; round++)
      for (std::size_t g = 0; g < groups.size(); g++) {
        std::vector<std::int64_t> x(4000 + g, world.rank());
        groups[g].all_reduce(std::span(x));
        for (const auto v : x) ASSERT_EQ(v, 3);
      }
  });
}

TEST(Stages, AHundredGroupsAtOnce) {
  spawn_threads(2, [](Group world) {
    constexpr std::size_t kGroups = 100;
    std::vector<Group> groups;
    for (std::size_t i = 0; i < kGroups; i++) groups.push_back(world.split(0));
    std::vector<std::vector<std::int64_t>> data(kGroups);
    std::vector<Work> works;
    for (std::size_t i = 0; i < kGroups; i++) {
      const std::size_t g = world.rank() == 0 ? i : kGroups - 1 - i;  // in opposite orders
      data[g].assign(5000 + g, world.rank() + 1);
      works.push_back(groups[g].all_reduce_async(std::span(data[g])));
    }
    for (const Work& w : works) w.wait();
    for (const auto& d : data)
      for (const auto v : d) ASSERT_EQ(v, 3);
  });
}

TEST(Stages, TwoThreadsWithAGroupEachInOppositeOrders) {
  spawn_threads(3, [](Group world) {
    const Group a = world.split(0), b = world.split(0);
    std::thread other([&] {
      for (int i = 0; i < 10; i++) sums(world.rank() % 2 == 0 ? b : a, i);
    });
    for (int i = 0; i < 10; i++) sums(world.rank() % 2 == 0 ? a : b, i);
    other.join();
  });
}

TEST(Stages, ARootThatRunsAheadOfARankThatWaitsInAnotherGroup) {
  spawn_threads(2, [](Group world) {
    const Group a = world.split(0), b = world.split(0);
    std::vector<std::int64_t> x(2000, world.rank() == 0 ? 7 : 0);
    // Rank 0's broadcast ends without rank 1, which first wants a sum that rank 0 only comes to afterwards.
    Options staged;
    staged.algorithm = "staged";
    if (world.rank() == 0) a.broadcast(std::span(x), 0, staged);
    sums(b, 1);
    if (world.rank() == 1) a.broadcast(std::span(x), 0, staged);
    for (const auto v : x) ASSERT_EQ(v, 7);
  });
}

TEST(Stages, GroupsOfAllSizesTakeTurns) {
  spawn_threads(4, [](Group world) {
    const Group pair = world.split(world.rank() / 2), across = world.split(world.rank() % 2);
    const std::vector<int> most{0, 1, 2};
    const Group three = world.rank() < 3 ? world.subgroup(most) : Group();
    for (int i = 0; i < 10; i++) {
      sums(world, i);
      sums(pair, i);
      if (three) sums(three, i);
      sums(across, i);
    }
  });
}

TEST(Stages, GroupsComeAndGoWhileOthersRun) {
  spawn_threads(2, [](Group world) {
    const Group lasting = world.split(0);
    std::thread other([&] {
      for (int i = 0; i < 20; i++) sums(lasting, i);
    });
    for (int i = 0; i < 20; i++) {
      Group passing = world.split(0);
      sums(passing, i);
      passing.destroy();
    }
    other.join();
  });
}

TEST(Stages, AFailedGroupHoldsNobodyUp) {
  spawn_threads(3, [](Group world) {
    const Group bad = world.split(0), good = world.split(0);
    sums(bad, 1);
    std::vector<std::int64_t> x(kCount, 1);
    Options o;
    if (world.rank() != 2) {  // rank 2 does not come
      o.timeout = std::chrono::milliseconds(300);
      EXPECT_THROW(bad.all_reduce(std::span(x), ReduceOp::sum, o), Error);
    }
    sums(good, 1);
    Group(bad).destroy();
    const Group next = world.split(0);
    sums(next, 1);
  });
}

}  // namespace
}  // namespace unisono

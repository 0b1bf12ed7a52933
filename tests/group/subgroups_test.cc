#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "unisono/unisono.hpp"

namespace unisono {
namespace {

TEST(Subgroups, HierarchicalAllReduceWithALeadersGroupMadeByItsMembersOnly) {
  spawn_threads(4, [](Group world) {
    const std::vector<int> mine = world.rank() < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
    const Group local = world.subgroup(mine);
    std::int64_t x = world.rank() + 1;
    local.all_reduce(std::span(&x, 1));
    if (local.rank() == 0) {
      const std::vector<int> leaders{0, 2};
      const Group top = world.subgroup(leaders);
      top.all_reduce(std::span(&x, 1));
    }
    local.broadcast(std::span(&x, 1), 0);
    EXPECT_EQ(x, 10);
    // Later groups are not disturbed by those that only some made.
    std::int64_t all = 1;
    world.all_reduce(std::span(&all, 1));
    EXPECT_EQ(all, 4);
    const Group again = world.subgroup(mine);
    again.all_reduce(std::span(&all, 1));
    EXPECT_EQ(all, 8);
  });
}

TEST(Subgroups, SplitOrdersByKeyAndLeavesOutNegativeColours) {
  spawn_threads(5, [](Group world) {
    const int colour = world.rank() == 4 ? -1 : world.rank() % 2;
    const Group part = world.split(colour, -world.rank());
    if (colour < 0) {
      EXPECT_FALSE(part);
      return;
    }
    EXPECT_EQ(part.size(), 2);
    EXPECT_EQ(part.rank(), world.rank() < 2 ? 1 : 0) << "higher ranks have smaller keys";
    std::vector<std::int32_t> members(2);
    const std::int32_t me = world.rank();
    part.all_gather(std::span(&me, 1), std::span(members));
    EXPECT_EQ(members, (std::vector<std::int32_t>{colour + 2, colour}));
  });
}

TEST(Subgroups, ManyGroupsInFlightAtOnceInAnyOrder) {
  spawn_threads(3, [](Group world) {
    std::vector<Group> groups;
    for (int i = 0; i < 6; i++) groups.push_back(world.split(0));
    std::vector<std::vector<float>> data(6, std::vector<float>(50000, 1.0f));
    std::vector<Work> works;
    for (int i = 0; i < 6; i++) {
      const std::size_t at = static_cast<std::size_t>((i + world.rank() * 2) % 6);  // every rank in another order
      works.push_back(groups[at].all_reduce_async(std::span(data[at])));
    }
    for (const Work& w : works) w.wait();
    for (const auto& d : data)
      for (const float v : d) ASSERT_EQ(v, 3.0f);
  });
}

TEST(Subgroups, NetworkAlgorithmsWorkInThemToo) {
  spawn_threads(4, [](Group world) {
    const Group part = world.split(world.rank() % 2);
    Options o;
    o.algorithm = "ring";
    std::vector<std::int32_t> x(70000, world.rank());
    part.all_reduce(std::span(x), ReduceOp::sum, o);
    for (const auto v : x) ASSERT_EQ(v, world.rank() % 2 == 0 ? 2 : 4);
  });
}

TEST(Subgroups, BadListsAreRefusedByName) {
  spawn_threads(2, [](Group world) {
    const auto message = [&](std::vector<int> ranks) -> std::string {
      try {
        (void)world.subgroup(ranks);
      } catch (const InvalidArgument& e) {
        return e.what();
      }
      return "no error";
    };
    EXPECT_NE(message({0, 0}).find("rank 0 is named twice"), std::string::npos);
    EXPECT_NE(message({0, 2}).find("rank 2 is out of range"), std::string::npos);
    EXPECT_NE(message({}).find("no ranks"), std::string::npos);
    EXPECT_NE(message({1 - world.rank()}).find("not one of its members"), std::string::npos);
  });
}

/// What rank 0's subgroup({0, 1}) throws.
template <class Meanwhile>
std::string why_there_is_none(Meanwhile&& meanwhile) {
  std::string message = "no error";
  spawn_threads(3, [&](Group world) {
    world.barrier();
    if (world.rank() != 0) return meanwhile(world);
    const std::vector<int> two{0, 1};
    try {
      (void)world.subgroup(two, {.timeout = std::chrono::minutes(5)});
    } catch (const Error& e) {
      message = e.what();
    }
  });
  return message;
}

TEST(Subgroups, NobodyWaitsForARankThatHasLeft) {
  const std::string message = why_there_is_none([](const Group&) {});
  EXPECT_NE(message.find("to make \"world/{0,1}\""), std::string::npos) << message;
  EXPECT_NE(message.find("rank 1 of group \"world\""), std::string::npos) << message;
  EXPECT_NE(message.find("has left"), std::string::npos) << message;
}

TEST(Subgroups, NobodyWaitsWhereTheGroupHasFailed) {
  const std::string message = why_there_is_none([](const Group& world) {
    if (world.rank() == 2) world.abort("on purpose");
    if (world.rank() == 1) {
      EXPECT_THROW(world.recv({}, 2), Error);  // who finds out before it would have called
    }
  });
  EXPECT_NE(message.find("aborted by rank 2"), std::string::npos) << message;
}

/// Whoever waits in one group carries on what was started in another one, also where somebody is to be called when that is done.
TEST(Subgroups, WhatWasStartedInOneGoesOnWhileARankWaitsInAnother) {
  for (const bool calls : {false, true})
    spawn_threads(2, [&](Group world) {
      const Group other = world.split(0);
      std::vector<float> data(1'000'000, 1.0F);
      std::int32_t word = 0;
      for (int round = 0; round < 20; round++) {
        if (world.rank() == 1) {
          other.all_reduce(std::span(data));
          world.send(std::span<const std::int32_t>(&word, 1), 0);
          continue;
        }
        std::atomic<bool> called = false;
        Call call;
        call.collective = Collective::all_reduce;
        call.input = call.output = data.data();
        call.count = static_cast<std::int64_t>(data.size());
        call.dtype = DType::f32;
        const Work work = other.start(call);
        if (calls) work.on_done([&] { called = true, called.notify_one(); });
        world.recv(std::span(&word, 1), 1);
        work.wait();
        if (calls) called.wait(false);
      }
      world.barrier();
    });
}

}  // namespace
}  // namespace unisono

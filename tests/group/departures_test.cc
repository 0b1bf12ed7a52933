/// Ranks that destroy a group while others still call on it, and those that do so in order. Ranks
/// as threads.

#include <gtest/gtest.h>

#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "unisono/unisono.hpp"

namespace unisono {
namespace {

using GroupCall = std::function<void(Group&)>;

/// What ranks 0 and 2 of three call after rank 1 has destroyed the group, or just before: they
/// raise, while rank 1 lives on.
void expect_it_is_heard(const GroupCall& call, bool of_world) {
  std::latch heard(3);
  spawn_threads(3, [&](Group world) {
    Group group = of_world ? world : world.split(0);
    group.barrier();
    if (world.rank() == 1) {
      group.destroy();
      heard.arrive_and_wait();
      return;
    }
    try {
      call(group);
      ADD_FAILURE() << "rank " << world.rank() << " raised nothing";
    } catch (const RankFailure& e) {
      const std::string message = e.what();
      EXPECT_EQ(e.rank, 1) << message;
      EXPECT_NE(message.find("it has destroyed the group"), std::string::npos) << message;
      EXPECT_NE(e.pid, 0) << message;
    }
    heard.arrive_and_wait();
  });
}

TEST(Departures, AreHeardAtOnceInEveryKindOfCall) {
  const auto sum = [](Group& group, std::size_t count, const char* algorithm) {
    std::vector<float> data(count, 1.0F);
    Options options;
    options.algorithm = algorithm;
    group.all_reduce(std::span(data), ReduceOp::sum, options);
  };
  const std::vector<GroupCall> calls{
      [&](Group& group) { sum(group, 1, ""); },
      [&](Group& group) { sum(group, 1'000'000, ""); },
      [&](Group& group) { sum(group, 70'000, "ring"); },
      [](Group& group) { group.barrier(); },
      [](Group& group) {
        std::vector<float> data(100'000);
        group.all_reduce_async(std::span(data)).wait();
      },
      [](Group& group) {  // the root needs nobody's word for the first
        for (int i = 0; i < 2; i++) {
          std::int32_t word = 0;
          group.broadcast(std::span(&word, 1), 0);
        }
      },
      [](Group& group) {
        std::int32_t word = 0;
        group.recv(std::span(&word, 1), 1);
      },
      [](Group& group) {
        std::vector<float> data(1'000'000);
        group.irecv(std::span(data), 1).wait();
      },
      [](Group& group) {
        const std::vector<float> data(1'000'000);
        group.send(std::span(data), 1);
      },
  };
  for (const bool of_world : {false, true})
    for (const GroupCall& call : calls) expect_it_is_heard(call, of_world);
}

TEST(Departures, WhatWasSentBeforeArrives) {
  for (const std::size_t count : {std::size_t{3}, std::size_t{9'000}, std::size_t{100'000}})
    spawn_threads(2, [count](Group world) {
      Group group = world.split(0);
      const int messages = count > 50'000 ? 1 : 4;  // a large one is handed over: send() returns when it was received
      if (world.rank() == 1) {
        const std::vector<std::int32_t> data(count, 5);
        for (int i = 0; i < messages; i++) group.send(std::span(data), 0);
        group.destroy();
        world.barrier();
        return;
      }
      std::vector<std::int32_t> data(count);
      for (int i = 0; i < messages; i++) {
        if (i == 1)
          std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the departure is there by now, as a rule
        data.assign(count, 0);
        group.recv(std::span(data), 1);
        for (const auto v : data) ASSERT_EQ(v, 5);
      }
      EXPECT_THROW(group.recv(std::span(data), 1), RankFailure);
      world.barrier();
    });
}

TEST(Departures, InOrderAreSilent) {
  spawn_threads(3, [](Group world) {
    for (int round = 0; round < 60; round++) {
      Group group = round % 2 == 0 ? world.split(0) : world.subgroup(std::vector<int>{2, 0, 1});
      const auto count = static_cast<std::size_t>(round % 3 == 0 ? 1 : round % 3 == 1 ? 3'000 : 200'000);
      std::vector<float> data(count, 1.0F);
      // One is slower than the others, which are through and gone when it reads what they gave
      // last.
      if (round % 5 == world.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      switch (round % 4) {
        case 0:
          group.broadcast(std::span(data), round % 3);
          break;
        case 1:
          (void)group.all_reduce_async(std::span(data));  // destroy() ends it
          break;
        case 2:
          group.reduce(data, data, round % 3);
          break;
        default:
          group.all_reduce(std::span(data));
      }
      group.destroy();
      if (round % 4 == 3) {
        for (const float v : data) ASSERT_EQ(v, 3.0F);
      }
    }
    world.barrier();
  });
}

}  // namespace
}  // namespace unisono

/// Random programs, the same on all ranks, of all kinds of operations mixed; what ThreadSanitizer is for.

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "unisono/unisono.hpp"

namespace unisono {
namespace {

void random_program(Group world, std::uint64_t seed, int steps) {
  std::mt19937_64 random(seed);  // the same on all ranks
  const int n = world.size(), me = world.rank();
  struct InFlight {
    std::vector<std::int64_t> data;
    std::int64_t expected;
    Work work;
  };
  std::vector<std::unique_ptr<InFlight>> flying;
  for (int step = 0; step < steps; step++) {
    const auto count = static_cast<std::size_t>(random() % 5 == 0 ? random() % 60000 : random() % 12);
    switch (random() % 6) {
      case 0: {
        std::vector<std::int64_t> x(count, me + step);
        world.all_reduce(std::span(x));
        for (const auto v : x) ASSERT_EQ(v, n * step + n * (n - 1) / 2);
        break;
      }
      case 1: {
        const int root = static_cast<int>(random() % static_cast<std::uint64_t>(n));
        std::vector<std::int64_t> x(count, me == root ? step : -1);
        world.broadcast(std::span(x), root);
        for (const auto v : x) ASSERT_EQ(v, step);
        break;
      }
      case 2: {
        auto f = std::make_unique<InFlight>();
        f->data.assign(count, me);
        f->expected = n * (n - 1) / 2;
        f->work = world.all_reduce_async(std::span(f->data));
        flying.push_back(std::move(f));
        break;
      }
      case 3: {
        const int right = (me + 1) % n, left = (me + n - 1) % n;
        std::vector<std::int64_t> out(count, me), in(count, -1);
        const Work receive = world.irecv(std::as_writable_bytes(std::span(in)), left, step);
        world.send(std::span<const std::int64_t>(out), right, step);
        receive.wait();
        for (const auto v : in) ASSERT_EQ(v, left);
        break;
      }
      case 4:
        if (!flying.empty()) {
          for (const auto& f : flying) {
            f->work.wait();
            for (const auto v : f->data) ASSERT_EQ(v, f->expected);
          }
          flying.clear();
        }
        break;
      default:
        world.barrier();
    }
  }
  for (const auto& f : flying) f->work.wait();
}

TEST(Stress, RandomPrograms) {
  for (const int n : {2, 3, 4})
    for (std::uint64_t seed = 1; seed <= 4; seed++)
      spawn_threads(n, [&](Group world) { random_program(world, seed, 150); });
}

TEST(Stress, TinyOperationsBackToBack) {
  spawn_threads(4, [](Group world) {
    for (std::int64_t i = 0; i < 3000; i++) {
      std::int64_t x = i + world.rank();
      if (i % 3 == 0)
        world.broadcast(std::span(&x, 1), static_cast<int>(i) % 4);
      else
        world.all_reduce(std::span(&x, 1), ReduceOp::max);
      ASSERT_EQ(x, i % 3 == 0 ? i + i % 4 : i + 3);
    }
  });
}

TEST(Stress, SeveralThreadsOfARankUseSeveralGroups) {
  spawn_threads(2, [](Group world) {
    const Group a = world.split(0), b = world.split(0);
    const auto work = [](const Group& g) {
      for (int i = 0; i < 100; i++) {
        std::vector<float> x(static_cast<std::size_t>(i * 50 + 1), 1);
        g.all_reduce(std::span(x));
        ASSERT_EQ(x.back(), 2);
      }
    };
    std::thread other([&] { work(b); });
    work(a);
    other.join();
  });
}

TEST(Stress, CallbacksMayUseTheLibrary) {
  spawn_threads(2, [](Group world) {
    std::vector<float> first(1000, 1), second(1000, 1);
    std::atomic<bool> started{false};
    Work chained;
    const Work work = world.all_reduce_async(std::span(first));
    work.on_done([&] {
      chained = world.all_reduce_async(std::span(second));
      started.store(true);
    });
    work.wait();
    while (!started.load()) std::this_thread::yield();
    chained.wait();
    EXPECT_EQ(second[0], 2);
  });
}

}  // namespace
}  // namespace unisono

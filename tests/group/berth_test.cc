#include "group/berth.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/host_topology.h"

namespace unisono::group {
namespace {

using namespace std::chrono_literals;

bool yes() { return true; }
bool no() { return false; }

/// What the progress thread does, in a thread of its own.
class BerthTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (processors_.size() < 2) GTEST_SKIP() << "SKIPPED: needs two processors";
  }
  void begin_on(int cpu) {
    std::thread([&] {
      ASSERT_TRUE(run_on_cpus(std::array{cpu}).ok());
      berth_.begun_here();
    }).join();
  }
  template <class Look>
  static void in_a_thread(Look&& look) {
    std::thread(look).join();
  }
  const std::vector<int> processors_ = usable_cpus();
  Berth berth_;
  TimePoint now_ = TimePoint{} + 1h;
};

TEST_F(BerthTest, StaysWhereOperationsBeginWhileAllProcessorsAreBusy) {
  in_a_thread([&] {
    for (const int cpu : {processors_.front(), processors_.back()}) {
      begin_on(cpu);
      berth_.keep(now_ += 50ms, yes);
      EXPECT_EQ(usable_cpus(), std::vector{cpu});
    }
    berth_.keep(now_ += 50ms, no);
    EXPECT_EQ(usable_cpus(), processors_) << "anywhere, as before";
  });
}

TEST_F(BerthTest, LooksOnceInAWhile) {
  in_a_thread([&] {
    begin_on(processors_.back());
    berth_.keep(now_, no);
    berth_.keep(now_ + 49ms, yes);
    EXPECT_EQ(usable_cpus(), processors_);
    berth_.keep(now_ + 50ms, yes);
    EXPECT_EQ(usable_cpus(), std::vector{processors_.back()});
  });
}

TEST_F(BerthTest, GoesNowhereBeforeAnythingHasBegunOrWhereItMayNotRun) {
  in_a_thread([&] {
    berth_.keep(now_, yes);
    EXPECT_EQ(usable_cpus(), processors_) << "nothing has begun";
    ASSERT_TRUE(run_on_cpus(std::array{processors_.front()}).ok());
    begin_on(processors_.back());
    berth_.keep(now_ += 50ms, yes);
    EXPECT_EQ(usable_cpus(), std::vector{processors_.front()});
  });
}

TEST_F(BerthTest, LeavesAThreadThatSomebodyHasPlaced) {
  in_a_thread([&] {
    begin_on(processors_.back());
    berth_.keep(now_, yes);
    ASSERT_TRUE(run_on_cpus(processors_).ok());
    berth_.keep(now_ += 50ms, no);
    EXPECT_EQ(usable_cpus(), processors_);
    ASSERT_TRUE(run_on_cpus(std::array{processors_.front()}).ok());
    berth_.keep(now_ += 50ms, no);
    EXPECT_EQ(usable_cpus(), std::vector{processors_.front()}) << "not its own doing";
  });
}

TEST(Crowded, WithMoreThreadsThatRunThanProcessors) {
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (long i = ::sysconf(_SC_NPROCESSORS_ONLN); i >= 0; i--)
    threads.emplace_back([&] {
      while (!over.load(std::memory_order_relaxed)) continue;
    });
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  bool found = false;
  while (!found && std::chrono::steady_clock::now() < deadline) found = crowded();
  over.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace unisono::group

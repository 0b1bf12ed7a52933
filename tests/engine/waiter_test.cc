#include "engine/waiter.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace unisono::engine {
namespace {

using Steady = std::chrono::steady_clock;

/// Time stands still, so every yield comes back at once.
struct StillTime {
  StillTime() { clock.advance(std::chrono::seconds(100)); }
  /// A yield that takes so long.
  void yield_for(Duration time) {
    const auto before = clock.now().time_since_epoch().count();
    clock.advance(time);
    crowd.note(before, clock.now().time_since_epoch().count());
  }
  ManualClock clock;
  Crowd crowd{clock};
};

TEST(WaitPolicy, SpinsOnlyWithACoreForEveryRank) {
  EXPECT_GT(wait_policy(2, 2, -1).spins, 0u);
  EXPECT_EQ(wait_policy(2, 3, -1).spins, 0u);
  EXPECT_GT(wait_policy(2, 3, -1).yields, wait_policy(2, 2, -1).yields);
  EXPECT_EQ(wait_policy(2, 3, 17).spins, 17u);
}

TEST(Waiter, SpinsThenYieldsThenParks) {
  StillTime time;
  Waiter waiter({3, 2}, time.crowd);
  for (int i = 0; i < 5; i++) EXPECT_TRUE(waiter.pause()) << i;
  EXPECT_FALSE(waiter.pause());
  waiter.reset();
  EXPECT_TRUE(waiter.pause());
}

TEST(Waiter, DoesNotSpinOnASharedCore) {
  StillTime time;
  for (int i = 0; i < 2; i++) time.yield_for(std::chrono::microseconds(50));
  Waiter waiter({1000, 1}, time.crowd);
  EXPECT_TRUE(waiter.pause());
  EXPECT_EQ(waiter.rounds(), 1001u);
  EXPECT_FALSE(waiter.pause());
}

TEST(Waiter, ParksAtOnceAmongStrangers) {
  StillTime time;
  time.yield_for(std::chrono::milliseconds(10));
  Waiter waiter({1, 100}, time.crowd);
  EXPECT_TRUE(waiter.pause());   // a spin: a core is there
  EXPECT_FALSE(waiter.pause());  // no yield
  time.clock.advance(std::chrono::milliseconds(30));
  EXPECT_TRUE(waiter.pause());  // that was long ago
}

TEST(Crowd, OneLongYieldIsNoStrangerUnlessItTookAThirdOfTheWindow) {
  StillTime time;
  time.yield_for(std::chrono::milliseconds(3));
  EXPECT_FALSE(time.crowd.here());
  time.yield_for(std::chrono::milliseconds(4));
  EXPECT_TRUE(time.crowd.here());
  EXPECT_FALSE(time.crowd.core_is_shared());
}

TEST(Crowd, LongYieldsToPeersAreNoStrangers) {
  StillTime time;
  time.yield_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(time.crowd.here());
  time.crowd.were_peers();
  EXPECT_FALSE(time.crowd.here());
  time.yield_for(std::chrono::milliseconds(3));
  EXPECT_FALSE(time.crowd.here());  // what was before does not count any more
  time.yield_for(std::chrono::milliseconds(4));
  EXPECT_TRUE(time.crowd.here());
}

TEST(Crowd, OneLateYieldIsNoPeer) {
  StillTime time;
  time.yield_for(std::chrono::microseconds(50));
  EXPECT_FALSE(time.crowd.core_is_shared());
  time.clock.advance(std::chrono::milliseconds(3));
  time.yield_for(std::chrono::microseconds(50));
  EXPECT_FALSE(time.crowd.core_is_shared());  // not often enough
  time.yield_for(std::chrono::microseconds(50));
  EXPECT_TRUE(time.crowd.core_is_shared());
  for (int i = 0; i < 8; i++) time.crowd.yield();  // to nobody
  EXPECT_FALSE(time.crowd.core_is_shared());
}

void pin_to_core(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  ASSERT_EQ(::sched_setaffinity(0, sizeof set, &set), 0);
}

/// While it lives, the calling thread is on one core with another one, which works for 50 us and yields, again and again.
class PeerOnThisCore {
 public:
  PeerOnThisCore() {
    EXPECT_EQ(::sched_getaffinity(0, sizeof before_, &before_), 0);
    int core = 0;
    while (!CPU_ISSET(core, &before_)) core++;
    peer_ = std::thread([this, core] {
      pin_to_core(core);
      while (!over_) {
        const auto until = Steady::now() + std::chrono::microseconds(50);
        while (Steady::now() < until) {
        }
        ::sched_yield();
      }
    });
    pin_to_core(core);
  }
  ~PeerOnThisCore() {
    over_ = true;
    peer_.join();
    EXPECT_EQ(::sched_setaffinity(0, sizeof before_, &before_), 0);
  }
  PeerOnThisCore(const PeerOnThisCore&) = delete;
  PeerOnThisCore& operator=(const PeerOnThisCore&) = delete;

 private:
  cpu_set_t before_;
  std::atomic<bool> over_{false};
  std::thread peer_;
};

/// Two that wait for each other on one core: yields that come back late show it. It says so once, and whoever has moved away from there
/// does not go on as if somebody were here.
TEST(Crowd, SaysOnceThatItFoundAPeerOnItsCore) {
  const SteadyClock clock;
  Crowd crowd(clock);
  EXPECT_FALSE(crowd.found_shared());
  const PeerOnThisCore peer;
  const auto deadline = Steady::now() + std::chrono::seconds(30);
  bool found = false;
  while (!(found |= crowd.found_shared()) && Steady::now() < deadline) crowd.yield();
  EXPECT_TRUE(found);
  EXPECT_FALSE(crowd.found_shared());
  crowd.forget_shared();
  EXPECT_FALSE(crowd.core_is_shared());
}

}  // namespace
}  // namespace unisono::engine

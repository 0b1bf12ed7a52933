#include "transport/poller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "transport/transports.h"

namespace unisono::transport {
namespace {

using namespace std::chrono_literals;

class PollerTest : public testing::Test {
 protected:
  PollerTest() {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    left = Fd(pair[0]);
    right = Fd(pair[1]);
  }
  std::vector<int> ready() {
    std::vector<int> fds;
    poller->poll(fds);
    return fds;
  }
  /// How long a wait() took.
  Duration sleep(Duration timeout) {
    const TimePoint begin = clock.now();
    poller->wait(timeout);
    return clock.now() - begin;
  }
  SteadyClock clock;
  std::unique_ptr<Poller> poller = make_epoll_poller();
  Fd left, right;
};

TEST_F(PollerTest, SleepsUntilTheTimeout) {
  poller->prepare();
  const Duration took = sleep(20ms);
  EXPECT_GE(took, 20ms);
  EXPECT_LT(took, 2s);
  poller->prepare();
  EXPECT_LT(sleep(-5s), 1s) << "a time in the past is no sleep";
}

TEST_F(PollerTest, KeepsAWakeBetweenPrepareAndWait) {
  poller->prepare();
  poller->wake();
  EXPECT_TRUE(ready().empty()) << "looking does not swallow the wake";
  EXPECT_LT(sleep(10s), 5s);
  poller->prepare();
  EXPECT_GE(sleep(20ms), 20ms) << "one wake ends one sleep";
}

TEST_F(PollerTest, RingsOnlySleepers) {
  poller->wake();  // nobody sleeps: there is nothing to do
  poller->prepare();
  EXPECT_GE(sleep(20ms), 20ms);
  poller->prepare();
  poller->cancel();
  poller->wake();
  poller->prepare();
  EXPECT_GE(sleep(20ms), 20ms);
}

TEST_F(PollerTest, IsWokenByAnotherThread) {
  for (int i = 0; i < 200; ++i) {
    std::atomic<bool> work{false};
    std::thread other([&] {
      work.store(true, std::memory_order_release);
      poller->wake();
    });
    while (!work.load(std::memory_order_acquire)) {
      poller->prepare();
      if (work.load(std::memory_order_acquire)) {
        poller->cancel();
        break;
      }
      ASSERT_LT(sleep(10s), 5s);
    }
    other.join();
  }
}

TEST_F(PollerTest, SeesTheWorkOrHearsTheBell) {
  // The race at the heart of sleeping, many times and as tight as can be: one stores and wakes, one announces and looks. That
  // neither notices the other must never happen.
  auto made = EpollPoller::create();
  ASSERT_TRUE(made.ok());
  EpollPoller& epoll = **made;
  constexpr int kRounds = 50000, kStop = 1 << 30;
  const TimePoint end = clock.now() + 2s;  // a loaded machine plays fewer rounds
  std::atomic<int> start{0}, finished{0};
  alignas(64) std::atomic<int> work{0};
  const auto await = [](std::atomic<int>& word, int value) {
    for (int spins = 0; word.load(std::memory_order_acquire) < value;)
      if (++spins > 500) std::this_thread::yield();
  };
  std::thread other([&] {
    for (int i = 1;; ++i) {
      await(start, i);
      if (start.load(std::memory_order_acquire) == kStop) return;
      work.store(i, std::memory_order_release);
      epoll.wake();
      finished.store(i, std::memory_order_release);
    }
  });
  int missed = 0, played = 0;
  for (int i = 1; i <= kRounds && clock.now() < end; ++i, ++played) {
    start.store(i, std::memory_order_release);
    for (int delay = i % 64; delay > 0; --delay) std::atomic_signal_fence(std::memory_order_seq_cst);
    epoll.prepare();
    const bool saw = work.load(std::memory_order_acquire) == i;
    await(finished, i);
    std::uint64_t rings = 0;
    const bool heard = ::read(epoll.doorbell()->get(), &rings, sizeof rings) > 0;
    epoll.cancel();
    missed += !saw && !heard;
  }
  start.store(kStop, std::memory_order_release);
  other.join();
  EXPECT_GT(played, 0);
  EXPECT_EQ(missed, 0);
}

TEST_F(PollerTest, ReportsDescriptorsAsLongAsTheyAreReady) {
  poller->add(left.get());
  EXPECT_TRUE(ready().empty());
  ASSERT_EQ(::write(right.get(), "x", 1), 1);
  poller->prepare();
  EXPECT_LT(sleep(10s), 5s);
  EXPECT_THAT(ready(), testing::ElementsAre(left.get()));
  EXPECT_THAT(ready(), testing::ElementsAre(left.get()));
  poller->remove(left.get());
  EXPECT_TRUE(ready().empty());
}

TEST_F(PollerTest, WatchesForRoomOnlyWhenAsked) {
  poller->want_write(left.get(), true);  // not watched: nothing happens
  EXPECT_TRUE(ready().empty());
  poller->add(left.get());
  poller->want_write(left.get(), true);
  EXPECT_THAT(ready(), testing::ElementsAre(left.get()));
  poller->want_write(left.get(), false);
  EXPECT_TRUE(ready().empty());
}

TEST_F(PollerTest, ForgetsADescriptorThatAForkedChildStillHolds) {
  poller->add(left.get());
  int hold[2];
  ASSERT_EQ(::pipe(hold), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    poller->remove(left.get());  // must not reach into the parent's set
    char byte = 0;
    ::close(hold[1]);
    ::_exit(::read(hold[0], &byte, 1) == 0 ? 0 : 1);
  }
  ::close(hold[0]);
  ASSERT_EQ(::write(right.get(), "x", 1), 1);
  EXPECT_THAT(ready(), testing::ElementsAre(left.get()));
  poller->remove(left.get());
  left.reset();
  EXPECT_TRUE(ready().empty());
  ::close(hold[1]);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(PollerTest, AnnouncesItsSleepInSharedWords) {
  auto made = EpollPoller::create();
  ASSERT_TRUE(made.ok());
  EpollPoller& epoll = **made;
  std::atomic<std::uint32_t> word{0};
  epoll.announce_in(word);
  epoll.prepare();
  EXPECT_EQ(word.load(), 1u);
  epoll.cancel();
  EXPECT_EQ(word.load(), 0u);
  epoll.prepare();
  ring(*epoll.doorbell());
  epoll.wait(10s);
  EXPECT_EQ(word.load(), 0u);
  epoll.forget(word);
  epoll.prepare();
  EXPECT_EQ(word.load(), 0u);
}

}  // namespace
}  // namespace unisono::transport

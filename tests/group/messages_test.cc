/// Point to point, ranks as threads.

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "unisono/unisono.hpp"

namespace unisono {
namespace {

TEST(Messages, BothSendFirst) {
  spawn_threads(2, [](Group world) {
    const int other = 1 - world.rank();
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{3000000}}) {
      std::vector<std::int32_t> out(count, world.rank() + 1), in(count, -1);
      world.send(std::span<const std::int32_t>(out), other);
      const Received got = world.recv(std::span(in), other);
      EXPECT_EQ(got.source, other);
      EXPECT_EQ(got.bytes, static_cast<std::int64_t>(count * 4));
      for (const auto v : in) ASSERT_EQ(v, other + 1);
    }
  });
}

TEST(Messages, FromAnybodyWithTags) {
  spawn_threads(4, [](Group world) {
    if (world.rank() != 0) {
      for (int tag = 0; tag < 3; tag++) {
        const std::int64_t value = world.rank() * 10 + tag;
        world.send(std::span(&value, 1), 0, tag);
      }
      return;
    }
    for (int tag = 2; tag >= 0; tag--) {
      std::int64_t sum = 0;
      for (int i = 1; i < 4; i++) {
        std::int64_t value = 0;
        const Received got = world.recv(std::span(&value, 1), kAnyRank, tag);
        EXPECT_EQ(value, got.source * 10 + tag);
        EXPECT_EQ(got.tag, tag);
        sum += value;
      }
      EXPECT_EQ(sum, 60 + 3 * tag);
    }
  });
}

TEST(Messages, OneTagDoesNotOvertakeItself) {
  spawn_threads(2, [](Group world) {
    constexpr int kMessages = 500;
    if (world.rank() == 0) {
      for (int i = 0; i < kMessages; i++) {
        std::vector<std::int32_t> data(static_cast<std::size_t>(1 + i * 37 % 4000), i);
        world.send(std::span<const std::int32_t>(data), 1, 5);
      }
    } else {
      for (int i = 0; i < kMessages; i++) {
        std::vector<std::int32_t> data(4000, -1);
        const Received got = world.recv(std::span(data), 0, 5);
        ASSERT_EQ(got.bytes, (1 + i * 37 % 4000) * 4);
        ASSERT_EQ(data[0], i);
      }
    }
  });
}

/// Short ones are taken where they lie when they come next, and nothing else comes first: other tags, receives that were posted before, long messages.
TEST(Messages, ShortOnesKeepTheirOrder) {
  constexpr int kRounds = 300;
  spawn_threads(2, [](Group world) {
    const auto count = [](int i) { return std::size_t(i * 7 % 5 == 0 ? 40 : i % 7); };  // of 0 to 6 fit beside a header
    if (world.rank() == 0) {
      for (int i = 0; i < kRounds; i++)
        for (int tag = 0; tag < 3; tag++) {
          const std::vector<std::int32_t> data(count(i), 3 * i + tag);
          world.send(std::span(data), 1, tag);
        }
      return;
    }
    for (int i = 0; i < kRounds; i++) {
      std::vector<std::vector<std::int32_t>> in(3, std::vector<std::int32_t>(count(i), -1));
      const auto check = [&](int tag, const Received& got) {
        EXPECT_EQ(got.source, 0);
        EXPECT_EQ(got.tag, tag);
        EXPECT_EQ(got.bytes, static_cast<std::int64_t>(4 * count(i)));
        for (const auto v : in[static_cast<std::size_t>(tag)]) ASSERT_EQ(v, 3 * i + tag);
      };
      const int posted = i % 4;  // of tag 3: none
      Work early;
      if (posted < 3)
        early = world.irecv(std::as_writable_bytes(std::span(in[static_cast<std::size_t>(posted)])), 0, posted);
      for (int k = 0; k < 3; k++) {
        const int tag = i % 2 == 0 ? k : 2 - k;
        if (tag == posted) continue;
        check(tag, world.recv(std::span(in[static_cast<std::size_t>(tag)]), i % 5 == 0 ? kAnyRank : 0, tag));
      }
      if (posted == 3) continue;
      early.wait();
      check(posted, early.received());
    }
  });
}

/// A receive takes what was sent before its rank left or the sender was late, and ends with an error when nothing can come any more.
TEST(Messages, ShortOnesOfARankThatHasLeft) {
  spawn_threads(2, [](Group world) {
    std::int32_t x = 5;
    if (world.rank() == 0) {
      world.send(std::span<const std::int32_t>(&x, 1), 1);
      return;
    }
    std::int32_t y = 0;
    world.recv(std::span(&y, 1), 0);
    EXPECT_EQ(y, 5);
    EXPECT_THROW(world.recv(std::span(&y, 1), 0), Error);
  });
}

/// More than the way to a rank holds, while that one does something else: the progress thread takes them, also where it was not woken for them.
TEST(Messages, ARankThatComputesHoldsNobodyBack) {
  for (const std::size_t count : {1, 1000, 5000}) {
    std::atomic<bool> sent = false;
    spawn_threads(2, [&](Group world) {
      std::vector<std::int32_t> x(count, 7);
      for (int round = 0; round < 3; round++) {
        std::vector<std::vector<std::int32_t>> in(600, std::vector<std::int32_t>(count));
        std::vector<Work> works;
        if (world.rank() == 0)
          for (auto& to : in) works.push_back(world.irecv(std::as_writable_bytes(std::span(to)), 1));
        world.barrier();
        if (world.rank() == 1) {
          for (std::size_t i = 0; i < in.size(); i++) world.send(std::span<const std::int32_t>(x), 0);
          sent = true, sent.notify_one();
        } else {
          sent.wait(false);
          for (const Work& work : works) work.wait();
          for (const auto& got : in) ASSERT_EQ(got, x);
          sent = false;
        }
        world.barrier();
      }
    });
  }
}

/// Nobody waits for them, and the progress thread is not woken for short ones: who asks looks, and who is to be called is.
TEST(Messages, ReceivesThatNobodyWaitsFor) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{100'000}})
    for (const bool asks : {true, false})
      spawn_threads(3, [&](Group world) {
        std::vector<std::int32_t> x(count, world.rank());
        std::vector<Work> works;
        std::atomic<int> called = 0;
        if (world.rank() == 0) {
          std::vector<std::vector<std::int32_t>> in(20, std::vector<std::int32_t>(count));
          for (std::size_t i = 0; i < in.size(); i++) {
            works.push_back(world.irecv(std::as_writable_bytes(std::span(in[i])), i % 2 == 0 ? 1 : 2));
            if (!asks) works.back().on_done([&called] { called++, called.notify_one(); });
          }
          world.barrier();
          for (const Work& work : works)
            while (asks && !work.done()) std::this_thread::yield();
          for (int so_far = 0; !asks && so_far < 20; so_far = called) called.wait(so_far);
          for (std::size_t i = 0; i < in.size(); i++) {
            EXPECT_EQ(works[i].received().source, i % 2 == 0 ? 1 : 2);
            EXPECT_EQ(in[i], std::vector<std::int32_t>(count, i % 2 == 0 ? 1 : 2));
          }
        } else {
          world.barrier();
          for (int i = 0; i < 10; i++) world.send(std::span<const std::int32_t>(x), 0);
        }
        world.barrier();
      });
}

/// One that can never come is an error for who only asks, too.
TEST(Messages, AskingForAMessageOfARankThatHasLeft) {
  spawn_threads(2, [](Group world) {
    if (world.rank() == 0) return;
    std::int32_t x = 0;
    const Work work = world.irecv(std::as_writable_bytes(std::span(&x, 1)), 0);
    while (!work.done()) std::this_thread::yield();
    EXPECT_NE(work.error(), nullptr);
    EXPECT_THROW(work.wait(), RankFailure);
  });
}

TEST(Messages, ARingByHandEqualsAllReduce) {
  spawn_threads(5, [](Group world) {
    const int n = world.size(), me = world.rank(), right = (me + 1) % n, left = (me + n - 1) % n;
    const std::size_t chunk = 1001;
    std::vector<std::int64_t> x(chunk * static_cast<std::size_t>(n)), expected;
    std::iota(x.begin(), x.end(), me);
    expected = x;
    world.all_reduce(std::span(expected));
    std::vector<std::int64_t> incoming(chunk);
    const auto part = [&](int i) {
      return std::span(x).subspan(static_cast<std::size_t>((i % n + n) % n) * chunk, chunk);
    };
    for (int step = 0; step < 2 * (n - 1); step++) {
      const bool reducing = step < n - 1;
      const int outgoing = reducing ? me - step : me + 1 - (step - (n - 1));
      const Work receive = world.irecv(std::as_writable_bytes(std::span(incoming)), left, step);
      const Work send = world.isend(std::as_bytes(part(outgoing)), right, step);
      send.wait();
      receive.wait();
      const auto into = part(outgoing - 1);
      for (std::size_t i = 0; i < chunk; i++) into[i] = reducing ? into[i] + incoming[i] : incoming[i];
    }
    EXPECT_EQ(x, expected);
  });
}

TEST(Messages, AReceiveThatTimesOutLeavesTheGroupUsable) {
  spawn_threads(2, [](Group world) {
    std::int32_t x = -1;
    if (world.rank() == 0) {
      Options o;
      o.timeout = std::chrono::milliseconds(50);
      EXPECT_THROW(world.recv(std::span(&x, 1), 1, 0, o), Timeout);
    }
    world.barrier();
    if (world.rank() == 1) {
      const std::int32_t y = 7;
      world.send(std::span(&y, 1), 0);
    } else {
      world.recv(std::span(&x, 1), 1);
      EXPECT_EQ(x, 7);
    }
  });
}

/// So many elements are sent to a receiver with less room, `times` times; what the error has to say of it.
void send_too_much(std::size_t count, std::size_t room, int times, const std::string& said) {
  spawn_threads(2, [&](Group world) {
    std::vector<std::int32_t> data(count, 3);
    for (int i = 0; i < times; i++) {
      if (world.rank() == 0) {
        world.send(std::span<const std::int32_t>(data), 1);
        continue;
      }
      try {
        world.recv(std::span(data).first(room), 0);
        ADD_FAILURE() << "no error";
      } catch (const InvalidArgument& e) {
        EXPECT_NE(std::string(e.what()).find(said), std::string::npos) << e.what();
      }
    }
    world.barrier();
  });
}

TEST(Messages, ATooLargeMessageNamesBothSizes) { send_too_much(100, 10, 1, "400 bytes from rank 0"); }
TEST(Messages, AShortOneThatDoesNotFitNamesBothSizes) { send_too_much(4, 2, 20, "16 bytes from rank 0"); }

TEST(Messages, WaitingForARankThatHasLeft) {
  spawn_threads(3, [](Group world) {
    if (world.rank() == 2) return;  // leaves in good order
    std::int32_t x = 0;
    if (world.rank() == 0) {
      try {
        world.recv(std::span(&x, 1), 2);
        ADD_FAILURE() << "no error";
      } catch (const RankFailure& e) {
        EXPECT_EQ(e.rank, 2) << e.what();
      }
      const std::int32_t y = 1;
      world.send(std::span(&y, 1), 1);
    } else {
      world.recv(std::span(&x, 1), 0);
    }
  });
}

}  // namespace
}  // namespace unisono

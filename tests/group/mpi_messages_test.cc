/// Messages as MPI programs use them, ranks as threads: sendrecv, probe, any tag, oneself, several
/// at once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <thread>
#include <vector>

#include "unisono/unisono.hpp"

namespace unisono {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(MpiMessages, SendrecvGoesAroundARing) {
  spawn_threads(3, [](Group world) {
    const int n = world.size(), left = (world.rank() + n - 1) % n, right = (world.rank() + 1) % n;
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{2000}, std::size_t{300'001}}) {
      std::vector<double> out(count, world.rank()), in(count, -1);
      const Received got = world.sendrecv(out, right, in, left, 4, 4);
      EXPECT_EQ(got, (Received{left, 4, static_cast<std::int64_t>(count * sizeof(double))}));
      EXPECT_EQ(in, std::vector<double>(count, left));
      world.sendrecv_replace(in, left, right);
      EXPECT_EQ(in, out) << "and back";
    }
  });
}

TEST(MpiMessages, AReceiveMadeForWhatProbeFinds) {
  spawn_threads(3, [](Group world) {
    if (world.rank() > 0) {
      const std::vector<std::int32_t> data(static_cast<std::size_t>(5000 * world.rank()), world.rank());
      world.send(data, 0, 10 + world.rank());
      world.barrier();
      return;
    }
    for (int i = 1; i < world.size(); i++) {
      const Received found = world.probe(kAnyRank, kAnyTag);
      EXPECT_EQ(found.tag, 10 + found.source);
      std::vector<std::int32_t> data(static_cast<std::size_t>(found.bytes) / sizeof(std::int32_t));
      EXPECT_EQ(world.recv(data, found.source, kAnyTag), found);
      EXPECT_EQ(data, std::vector<std::int32_t>(static_cast<std::size_t>(5000 * found.source), found.source));
    }
    EXPECT_FALSE(world.iprobe(kAnyRank, kAnyTag).has_value());
    Options brief;
    brief.timeout = 50ms;
    EXPECT_THROW((void)world.probe(1, 3, brief), Timeout);
    world.barrier();
  });
}

TEST(MpiMessages, ToOneself) {
  Group alone = Context(Config()).create_group(make_memory_store(), 0, 1);
  const std::vector<int> out{1, 2, 3};
  std::vector<int> in(3);
  EXPECT_TRUE(alone.isend(out, 0, 7).done());
  EXPECT_EQ(alone.probe(0, 7).bytes, 12);
  EXPECT_EQ(alone.recv(in, 0, 7).source, 0);
  EXPECT_EQ(in, out);
  const Work work = alone.irecv(in, 0, 8);
  EXPECT_FALSE(work.done());
  alone.send(std::vector<int>{4, 5, 6}, 0, 8);
  work.wait();
  EXPECT_EQ(in, (std::vector<int>{4, 5, 6}));
  for (const auto& [call, cure] :
       {std::pair<std::function<void()>, const char*>{[&] { alone.send(out, 0, 9); }, "irecv"},
        std::pair<std::function<void()>, const char*>{[&] { alone.recv(in, 0, 9); }, "isend"}})
    try {
      call();
      ADD_FAILURE() << "it would wait for ever";
    } catch (const InvalidArgument& e) {
      EXPECT_THAT(e.what(), testing::AllOf(HasSubstr("itself"), HasSubstr(cure)));
    }
}

/// Another thread of the rank sleeps until the message comes.
TEST(MpiMessages, ToAThreadOfTheSameRank) {
  Group alone = Context(Config()).create_group(make_memory_store(), 0, 1);
  std::array<int, 1> in{};
  const Work work = alone.irecv(in, 0, 1);
  std::thread waits([&] { work.wait(); });
  alone.send(std::array{42}, 0, 1);
  waits.join();
  EXPECT_EQ(in[0], 42);
}

TEST(MpiMessages, NobodyIsAtTheEdge) {
  spawn_threads(2, [](Group world) {
    std::array<int, 1> in{-1};
    world.send(in, kNullRank);
    EXPECT_EQ(world.recv(in, kNullRank), (Received{kNullRank, kAnyTag, 0}));
    EXPECT_EQ(world.probe(kNullRank), (Received{kNullRank, kAnyTag, 0}));
    EXPECT_EQ(in[0], -1);
    EXPECT_THROW(world.send(in, 1 - world.rank(), kAnyTag), InvalidArgument);
  });
}

TEST(MpiMessages, SeveralAreWaitedFor) {
  spawn_threads(3, [](Group world) {
    if (world.rank() > 0) {
      std::array<int, 1> go{};
      world.recv(go, 0);
      world.send(std::array{world.rank()}, 0, 5);
      return;
    }
    std::array<int, 2> in{};
    const std::array works{world.irecv(std::span(&in[0], 1), 1, 5), world.irecv(std::span(&in[1], 1), 2, 5)};
    EXPECT_FALSE(test_all(works));
    EXPECT_FALSE(wait_any(works, 20ms).has_value());
    world.send(std::array{0}, 2);
    EXPECT_EQ(wait_any(works), 1U);
    EXPECT_THROW(wait_all(works, 20ms), Timeout);
    world.send(std::array{0}, 1);
    wait_all(works);
    EXPECT_TRUE(test_all(works));
    EXPECT_EQ(in, (std::array{1, 2}));
    EXPECT_THROW((void)wait_any({}), InvalidArgument);
  });
}

TEST(MpiMessages, AReceiveIsGivenUp) {
  spawn_threads(2, [](Group world) {
    const int other = 1 - world.rank();
    std::array<int, 1> never{-1}, in{};
    const Work work = world.irecv(never, other, 6);
    EXPECT_TRUE(work.cancel());
    EXPECT_FALSE(work.cancel());
    EXPECT_THROW(work.wait(), Aborted);
    world.barrier();
    EXPECT_FALSE(world.isend(in, other, 6).cancel());
    EXPECT_EQ(world.recv(in, other, 6).bytes, 4);
    EXPECT_EQ(never[0], -1);
    world.barrier();
  });
}

TEST(MpiMessages, ACopyOfAGroupIsApart) {
  spawn_threads(2, [](Group world) {
    const Group again = world.dup();
    const int other = 1 - world.rank();
    EXPECT_EQ(again.size(), 2);
    world.send(std::array{1}, other);
    again.send(std::array{2}, other);
    std::array<int, 1> in{};
    again.recv(in, other);
    EXPECT_EQ(in[0], 2);
    world.recv(in, other);
    EXPECT_EQ(in[0], 1);
    EXPECT_EQ(world.split_by_host(-world.rank()).rank(), other) << "threads share memory";
  });
}

}  // namespace
}  // namespace unisono

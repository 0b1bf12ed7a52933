/// Point to point, ranks as threads.

#include <gtest/gtest.h>

#include <numeric>
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

TEST(Messages, ATooLargeMessageNamesBothSizes) {
  spawn_threads(2, [](Group world) {
    std::vector<std::int32_t> data(100, 3);
    if (world.rank() == 0) {
      world.send(std::span<const std::int32_t>(data), 1);
    } else {
      try {
        world.recv(std::span(data).first(10), 0);
        FAIL() << "no error";
      } catch (const InvalidArgument& e) {
        EXPECT_NE(std::string(e.what()).find("400 bytes from rank 0"), std::string::npos) << e.what();
      }
    }
    world.barrier();
  });
}

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

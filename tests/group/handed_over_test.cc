/// Large messages between buffers in shared memory, which are copied once: the same as by the link, whatever else happens.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "engine/handover.h"
#include "group/calls_on_memory.h"
#include "unisono/unisono.hpp"

namespace unisono {
namespace {

constexpr std::size_t kLeast = engine::kHandedOver, kLeastPrivate = engine::kHandedOverPrivate;
constexpr auto kBeside = std::byte{0x5d};

/// Ordinary memory, allocated, or registered at an odd address with neighbours.
class Memory {
 public:
  enum class Kind : std::uint8_t { ordinary, allocated, registered };
  Memory(const Group& group, Kind kind, std::size_t bytes) : bytes_(bytes) {
    if (kind == Kind::allocated) {
      buffer_ = group.allocate(bytes);
      data_ = buffer_.data();
      return;
    }
    own_.assign(bytes + 20'000, kBeside);
    data_ = own_.data() + 10'007;
    if (kind == Kind::registered) registration_ = group.register_buffer(data_, bytes);
  }
  std::span<std::byte> span() const { return {data_, bytes_}; }
  std::span<const std::byte> read() const { return {data_, bytes_}; }
  // Not byte by byte: sanitizers look at every access.
  void fill(int seed) const {
    for (std::size_t i = 0; i < std::min(bytes_, kPeriod); i++) data_[i] = value(seed, i);
    for (std::size_t i = kPeriod; i < bytes_; i += kPeriod)
      std::memcpy(data_ + i, data_, std::min(kPeriod, bytes_ - i));
  }
  /// Whether the first `bytes` are of fill(seed).
  bool holds(int seed, std::size_t bytes) const {
    for (std::size_t i = 0; i < std::min(bytes, kPeriod); i++)
      if (data_[i] != value(seed, i)) return false;
    for (std::size_t i = kPeriod; i < bytes; i += kPeriod)
      if (std::memcmp(data_ + i, data_, std::min(kPeriod, bytes - i)) != 0) return false;
    return neighbours_are_well();
  }
  bool holds(int seed) const { return holds(seed, bytes_); }

 private:
  static constexpr std::size_t kPeriod = 1 << 16;  // of value()
  static std::byte value(int seed, std::size_t i) { return static_cast<std::byte>(i * 5 + (i >> 8) + seed * 31); }
  bool neighbours_are_well() const {
    if (own_.empty()) return true;
    const auto beside = [](std::byte b) { return b == kBeside; };
    const auto begin = own_.begin(), data = begin + (data_ - own_.data());
    return std::all_of(begin, data, beside) &&
           std::all_of(data + static_cast<std::ptrdiff_t>(bytes_), own_.end(), beside);
  }
  std::size_t bytes_;
  std::byte* data_ = nullptr;
  std::vector<std::byte> own_;
  Buffer buffer_;
  Registration registration_;
};

using Kind = Memory::Kind;
constexpr Kind kKinds[] = {Kind::ordinary, Kind::allocated, Kind::registered};

TEST(HandedOver, EverySizeBetweenAllKindsOfMemory) {
  spawn_threads(2, [](Group world) {
    for (const std::size_t bytes : {kLeast - 1, kLeast, kLeast + 1, std::size_t{1'000'003}, kLeastPrivate,
                                    std::size_t{3'000'001}, std::size_t{17 << 20}})
      for (const Kind out : kKinds)
        for (const Kind in : kKinds) {
          if (bytes > 3'000'001 && (out != Kind::registered || in != Kind::allocated)) continue;  // around the caches
          const Memory data(world, world.rank() == 0 ? out : in, bytes);
          if (world.rank() == 0) {
            data.fill(1);
            world.send(data.read(), 1, 3);
            data.fill(2);  // the caller's again
            const Received got = world.recv(data.span(), 1, 3);
            EXPECT_EQ(got.bytes, static_cast<std::int64_t>(bytes));
            ASSERT_TRUE(data.holds(7)) << bytes;
          } else {
            const Received got = world.recv(data.span(), kAnyRank, 3);
            EXPECT_EQ(got.source, 0);
            ASSERT_TRUE(data.holds(1)) << bytes;
            data.fill(7);
            world.send(data.read(), 0, 3);
          }
        }
  });
}

TEST(HandedOver, ManyInFlightInAnyOrderWithTags) {
  spawn_threads(3, [](Group world) {
    constexpr int kEach = 6;
    const int n = world.size(), me = world.rank();
    for (int round = 0; round < 5; round++) {
      std::vector<Memory> out, in;
      std::vector<Work> work;
      out.reserve(kEach), in.reserve(static_cast<std::size_t>(n) * kEach);
      for (int k = 0; k < kEach; k++) {
        out.emplace_back(world, k == 3 ? Kind::ordinary : kKinds[1 + k % 2], kLeast * static_cast<std::size_t>(1 + k));
        out.back().fill(me * 10 + k);
        for (int q = 0; q < n; q++)
          if (q != me) work.push_back(world.isend(out.back().read(), q, k));  // the same buffer to several
      }
      if (round % 2 == 1) std::this_thread::yield();
      for (int q = 0; q < n; q++)
        for (int k = kEach; k-- > 0 && q != me;) {
          in.emplace_back(world, kKinds[static_cast<std::size_t>(k + round) % 3],
                          kLeast * static_cast<std::size_t>(1 + k));
          work.push_back(world.irecv(in.back().span(), q, k));
        }
      for (const Work& w : work) w.wait();
      std::size_t at = 0;
      for (int q = 0; q < n; q++)
        for (int k = kEach; k-- > 0 && q != me;) ASSERT_TRUE(in[at++].holds(q * 10 + k)) << q << " " << k;
      world.barrier();
    }
  });
}

TEST(HandedOver, OneTagDoesNotOvertakeItself) {
  spawn_threads(2, [](Group world) {
    const std::size_t sizes[] = {kLeast, 8, 3 * kLeast, 1000, kLeast + 5};
    const Memory data(world, Kind::allocated, 3 * kLeast);
    for (int i = 0; i < 200; i++) {
      const std::size_t bytes = sizes[i % 5];
      if (world.rank() == 0) {
        data.fill(i);
        world.send(data.read().first(bytes), 1);
      } else {
        const Received got = world.recv(data.span(), 0);
        ASSERT_EQ(got.bytes, static_cast<std::int64_t>(bytes));
        ASSERT_TRUE(data.holds(i, bytes)) << i;
      }
    }
  });
}

TEST(HandedOver, BothMaySendFirst) {
  spawn_threads(2, [](Group world) {
    const Memory out(world, Kind::allocated, 3 << 20), in(world, Kind::registered, 3 << 20);
    out.fill(world.rank());
    world.send(out.read(), 1 - world.rank());
    world.recv(in.span(), 1 - world.rank());
    EXPECT_TRUE(in.holds(1 - world.rank()));
  });
}

TEST(HandedOver, ATooLargeMessageNamesBothSizes) {
  spawn_threads(2, [](Group world) {
    const Memory data(world, Kind::allocated, 2 << 20);
    data.fill(world.rank());
    if (world.rank() == 0) {
      world.send(data.read(), 1);
    } else {
      const Memory small(world, Kind::registered, 100'001);
      try {
        world.recv(small.span(), 0);
        ADD_FAILURE() << "no error";
      } catch (const InvalidArgument& e) {
        EXPECT_NE(std::string(e.what()).find("2097152 bytes from rank 0"), std::string::npos) << e.what();
      }
      EXPECT_TRUE(small.holds(0));
    }
    world.barrier();
  });
}

TEST(HandedOver, AMessageThatTimedOutWasNeverSent) {
  std::atomic<bool> gave_up{false};
  spawn_threads(2, [&](Group world) {
    const Memory data(world, Kind::allocated, 1 << 20);
    if (world.rank() == 0) {
      Options o;
      o.timeout = std::chrono::milliseconds(50);
      data.fill(1);
      EXPECT_THROW(world.send(data.read(), 1, 0, o), Timeout);
      data.fill(2);
      gave_up = true;
      world.send(data.read(), 1);
    } else {
      while (!gave_up) std::this_thread::yield();
      world.recv(data.span(), 0);
      EXPECT_TRUE(data.holds(2));
    }
    world.barrier();
  });
}

TEST(HandedOver, WhatAGroupTakesWithIt) {
  spawn_threads(2, [](Group world) {
    const Memory data(world, Kind::allocated, 4 << 20);
    for (int round = 0; round < (test::kSanitized ? 8 : 20); round++) {
      Group other = world.subgroup(std::vector<int>{0, 1});
      const Memory buffer(world, Kind::allocated, 4 << 20);
      buffer.fill(round);
      const auto tried = [&](auto&& call) {  // the other's abort may come before any of them
        try {
          call();
          return true;
        } catch (const Error&) {
          EXPECT_EQ(round % 2, 0);
          return false;
        }
      };
      std::optional<Work> work;
      tried([&] { work = world.rank() == 0 ? other.isend(buffer.read(), 1) : other.irecv(buffer.span(), 0); });
      if (round % 4 < 2) tried([&] { other.barrier(); });
      if (round % 2 == 0) other.abort("on purpose");
      const bool came = work && tried([&] { work->wait(); });
      EXPECT_TRUE(!came || buffer.holds(round));
      buffer.fill(100 + round);                                   // the caller's again, whatever came of it
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // time for one who would write to it all the same
      EXPECT_TRUE(buffer.holds(100 + round));
      other.destroy();
    }
    world.barrier();
  });
}

TEST(HandedOver, ToARankThatHasLeft) {
  spawn_threads(2, [](Group world) {
    if (world.rank() == 1) return;
    const Memory data(world, Kind::allocated, 1 << 20);
    for (int i = 0; i < 3; i++) {
      try {
        world.send(data.read(), 1);
      } catch (const RankFailure&) {
      }
    }
  });
}

}  // namespace
}  // namespace unisono

/// Collectives on buffers from Group::allocate: the same results as on any other memory, and nobody touches a caller's buffer
/// after its call has returned, whatever happened.

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "group/calls_on_memory.h"
#include "unisono/unisono.hpp"

namespace unisono {
namespace {

using test::equal_bytes;
using test::fill;
using test::kMoving;
using test::kSanitized;
using test::on_private;
using test::run_on;

/// `offset` bytes into a larger Buffer, as a view into a bucket is.
std::vector<std::byte> on_shared(const Group& world, const Call& call, bool in_place, std::size_t offset = 0) {
  Buffer memory[2];
  return run_on(world, call, in_place, [&](int which, std::size_t bytes) {
    memory[which] = world.allocate(bytes + offset + 64);
    return bytes == 0 ? nullptr : memory[which].data() + offset;
  });
}

TEST(SharedBuffers, EveryCollectiveIsAsOnPrivateMemory) {
  for (const int n : {2, 3, 5})
    spawn_threads(n, [](Group world) {
      for (const Collective c : kMoving)
        for (const std::int64_t count : {0, 1, 7, 1000, 70001, 600001})
          for (const bool in_place : {false, true}) {
            if (in_place && c == Collective::all_to_all) continue;
            if (kSanitized && count > 100000 && world.size() > 2) continue;
            Call call;
            call.collective = c;
            call.count = count;
            call.dtype = DType::f32;
            call.root = rooted(c) ? world.size() - 1 : 0;
            const auto expected = on_private(world, call);
            call.options.algorithm = "shared";
            const auto got = on_shared(world, call, in_place, 4 * static_cast<std::size_t>(count % 3));
            ASSERT_TRUE(equal_bytes(expected, got)) << name_of(c) << " of " << count << " among " << world.size()
                                                    << " on rank " << world.rank() << (in_place ? " in place" : "");
          }
    });
}

/// Every second call of a kind goes through blocks from their ends, in stretches.
TEST(SharedBuffers, CallsOfAKindInARowAreAlike) {
  for (const int n : kSanitized ? std::vector{2} : std::vector{2, 3})
    spawn_threads(n, [](Group world) {
      for (const Collective c : kMoving)
        for (const std::int64_t bytes : {300'003, 524'288, 1'200'001}) {
          Call call;
          call.collective = c;
          call.dtype = DType::u8;
          const bool halves = c == Collective::all_reduce;  // each rank has a block of the buffer
          call.count = halves ? bytes * world.size() : bytes;
          const auto expected = on_private(world, call);
          for (const char* const algorithm : {"shared", "single_copy"})
            for (int turn = 0; turn < 3; turn++) {
              call.options.algorithm = algorithm;
              ASSERT_TRUE(equal_bytes(expected, on_shared(world, call, false)))
                  << name_of(c) << " of " << bytes << " among " << world.size() << " on rank " << world.rank() << " by "
                  << algorithm << ", call " << turn;
            }
        }
    });
}

/// Beyond the caches, where who waits does a part of the others' sums.
TEST(SharedBuffers, LongReductionsAreAsOnPrivateMemory) {
  for (const int n : kSanitized ? std::vector{2} : std::vector{2, 4})
    spawn_threads(n, [](Group world) {
      for (const Collective c : {Collective::all_reduce, Collective::reduce})
        for (const bool in_place : {true, false}) {
          Call call;
          call.collective = c;
          call.count = (36 << 18) / world.size() + 3;
          call.dtype = DType::f32;
          const auto expected = on_private(world, call);
          call.options.algorithm = "shared";
          for (int round = 0; round < (kSanitized ? 1 : 3); round++)
            ASSERT_TRUE(equal_bytes(expected, on_shared(world, call, in_place)))
                << name_of(c) << " among " << world.size() << " on rank " << world.rank()
                << (in_place ? " in place" : "");
        }
    });
}

TEST(SharedBuffers, AnAllGatherByOwnersIsAsOnPrivateMemory) {
  for (const int n : {2, 3, 5})
    spawn_threads(n, [](Group world) {
      for (const std::int64_t count : {0, 1, 7, 1000, 70001, 600001})
        for (const bool in_place : {false, true}) {
          if (kSanitized && count > 100000 && world.size() > 3) continue;
          Call call;
          call.collective = Collective::all_gather;
          call.count = count;
          call.dtype = DType::f32;
          const auto expected = on_private(world, call);
          call.options.algorithm = "shared_by_owner";
          ASSERT_TRUE(equal_bytes(expected, on_shared(world, call, in_place, 4 * static_cast<std::size_t>(count % 3))))
              << count << " among " << world.size() << " on rank " << world.rank() << (in_place ? " in place" : "");
        }
    });
}

TEST(SharedBuffers, EveryTypeAndOperation) {
  spawn_threads(4, [](Group world) {
    for (int d = 0; d < kDTypes; d++)
      for (int o = 0; o < kReduceOps; o++)
        for (const Collective c : {Collective::all_reduce, Collective::reduce, Collective::reduce_scatter}) {
          Call call;
          call.collective = c;
          call.dtype = static_cast<DType>(d);
          call.op = static_cast<ReduceOp>(o);
          call.count = 1003;
          if (!supports(call.op, call.dtype)) continue;
          const auto expected = on_private(world, call);
          call.options.algorithm = "shared";
          ASSERT_TRUE(equal_bytes(expected, on_shared(world, call, true)))
              << name_of(c) << name_of(call.op) << name_of(call.dtype);
        }
  });
}

TEST(SharedBuffers, UnevenCounts) {
  spawn_threads(3, [](Group world) {
    const std::vector<std::int64_t> counts{5000, 0, 12345};
    const auto total = static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
    const auto mine = static_cast<std::size_t>(counts[static_cast<std::size_t>(world.rank())]);
    const Buffer all = world.allocate(total * 8), own = world.allocate(mine * 8);
    Call call;
    call.dtype = DType::i64;
    call.counts = counts;
    call.options.algorithm = "shared";
    call.collective = Collective::reduce_scatter;
    std::iota(all.span<std::int64_t>().begin(), all.span<std::int64_t>().end(), world.rank());
    call.input = all.data();
    call.output = own.data();
    world.run(call);
    const std::size_t begin = world.rank() == 2 ? 5000 : 0;
    for (std::size_t i = 0; i < mine; i++)
      ASSERT_EQ(own.span<std::int64_t>()[i], 3 * static_cast<std::int64_t>(begin + i) + 3);
    call.collective = Collective::all_gather;
    call.input = own.data();
    call.output = all.data();
    for (const char* algorithm : {"shared", "shared_by_owner"}) {
      call.options.algorithm = algorithm;
      std::memset(all.data(), 0, total * 8);
      world.run(call);
      for (std::size_t i = 0; i < total; i++)
        ASSERT_EQ(all.span<std::int64_t>()[i], 3 * static_cast<std::int64_t>(i) + 3) << algorithm << i;
      world.barrier();
    }
  });
}

/// Each rank knows only its own buffers; all must come to the same plan.
TEST(SharedBuffers, SomeRanksOnSharedMemoryAndSomeNot) {
  spawn_threads(3, [](Group world) {
    for (const Collective c : kMoving)
      for (int private_ranks = 0; private_ranks < 8; private_ranks++)
        for (const int root : {0, 2}) {
          Call call;
          call.collective = c;
          call.count = 30011;
          call.dtype = DType::f32;
          call.root = rooted(c) ? root : 0;
          const auto expected = on_private(world, call);
          const bool ordinary = (private_ranks >> world.rank() & 1) != 0;
          ASSERT_TRUE(equal_bytes(expected, ordinary ? on_private(world, call) : on_shared(world, call, false)))
              << name_of(c) << " private " << private_ranks << " root " << root << " on rank " << world.rank();
        }
  });
}

/// Of an all_gather the inputs, the outputs, both or neither, on each rank another; with a table in which it may be by owners at any size.
TEST(SharedBuffers, AnAllGatherWithSomeInputsOrOutputsOnSharedMemory) {
  Config config;
  config.algorithm = "all_gather@shm:1K-=shared_by_owner";
  const auto body = [](Group world) {
    for (const std::int64_t count : {300, 30011})
      for (int shared = 0; shared < 64; shared += kSanitized ? 7 : 1) {
        Call call;
        call.collective = Collective::all_gather;
        call.count = count;
        call.dtype = DType::f32;
        const auto expected = on_private(world, call);
        std::vector<std::byte> ordinary[2];
        Buffer buffer[2];
        const auto got = run_on(world, call, false, [&](int which, std::size_t bytes) {
          if ((shared >> (2 * world.rank() + which) & 1) != 0) {
            buffer[which] = world.allocate(bytes);
            return buffer[which].data();
          }
          ordinary[which].resize(bytes);
          return ordinary[which].data();
        });
        ASSERT_TRUE(equal_bytes(expected, got)) << count << ", shared " << shared << " on rank " << world.rank();
      }
  };
  spawn_threads(3, body, config);
  spawn_threads(3, body);
}

TEST(SharedBuffers, OnlyWhatOthersTouchMustBeShared) {
  spawn_threads(3, [](Group world) {
    std::vector<float> part(20000);
    Buffer buffer;
    std::span<const float> parts;
    if (world.rank() == 1) {
      buffer = world.allocate(3 * part.size() * sizeof(float));
      std::fill(buffer.span<float>().begin(), buffer.span<float>().end(), 7.0f);
      parts = buffer.span<float>();
    }
    Options o;
    o.algorithm = "shared";
    world.scatter(parts, std::span(part), 1, o);
    for (const float v : part) ASSERT_EQ(v, 7.0f);
  });
}

TEST(SharedBuffers, AnAlgorithmAskedForByNameIsNotReplaced) {
  spawn_threads(2, [](Group world) {
    std::vector<float> x(20000);
    Options o;
    o.algorithm = "shared";
    try {
      world.all_reduce(std::span(x), ReduceOp::sum, o);
      FAIL() << "it ran on private memory";
    } catch (const InvalidArgument& e) {
      EXPECT_NE(std::string(e.what()).find("Group::allocate"), std::string::npos) << e.what();
    }
    world.barrier();  // nothing was sent: the group goes on
    const Buffer part = world.allocate(40000);
    o.algorithm = "shared_by_owner";
    try {
      world.all_gather(part.span<const float>(), std::span(x), o);
      FAIL() << "it wrote to private memory";
    } catch (const InvalidArgument& e) {
      EXPECT_NE(std::string(e.what()).find("shared_by_owner of all_gather needs the output"), std::string::npos)
          << e.what();
    }
    world.barrier();
  });
}

TEST(SharedBuffers, SubgroupsAndManyOperationsInFlight) {
  spawn_threads(4, [](Group world) {
    Group half = world.split(world.rank() % 2);
    const Buffer a = world.allocate(1 << 20), b = world.allocate(1 << 20);
    for (int round = 0; round < 5; round++) {
      std::fill(a.span<std::int64_t>().begin(), a.span<std::int64_t>().end(), 1);
      std::fill(b.span<std::int64_t>().begin(), b.span<std::int64_t>().end(), 1);
      std::vector<Work> works;
      for (std::size_t part = 0; part < 4; part++) {
        works.push_back(world.all_reduce_async(a.span<std::int64_t>().subspan(part * 32768, 32768)));
        works.push_back(half.all_reduce_async(b.span<std::int64_t>().subspan(part * 32768, 32768)));
      }
      for (const Work& w : works) w.wait();
      for (const std::int64_t v : a.span<std::int64_t>()) ASSERT_EQ(v, 4);
      for (const std::int64_t v : b.span<std::int64_t>()) ASSERT_EQ(v, 2);
    }
  });
}

TEST(SharedBuffers, AMismatchIsAnErrorOnAllRanks) {
  std::atomic<int> raised{0};
  spawn_threads(3, [&](Group world) {
    const Buffer x = world.allocate(1 << 20);
    const auto data = x.span<float>().first(world.rank() == 1 ? 100000 : 100001);
    EXPECT_THROW(world.all_reduce(data), Mismatch);
    raised++;
  });
  EXPECT_EQ(raised, 3);
}

/// Whenever a call ends, also in failure, its buffer is the caller's alone: what it then writes there stays.
TEST(SharedBuffers, AfterAnAbortNobodyTouchesTheBuffer) {
  constexpr int kRanks = 4, kRounds = kSanitized ? 9 : 20;
  constexpr std::size_t kBytes = 8 << 20;
  int failures = 0;
  for (int round = 0; round < kRounds; round++) {
    std::barrier all(kRanks);
    std::atomic<int> begun{0}, failed{0};
    spawn_threads(kRanks, [&](Group world) {
      const Buffer x = world.allocate(kBytes);
      const int kind = round / 3 % 3;
      const bool scatters = kind == 1;  // in which the root writes to the others' buffers
      const bool gathers = kind == 2;   // by owners: all write to all
      const Buffer parts = world.allocate(scatters && world.rank() == 0 ? kRanks * kBytes : 64);
      const std::span<float> part = x.span<float>().subspan(static_cast<std::size_t>(world.rank()) * kBytes / 16);
      std::memset(x.data(), 0, kBytes);
      std::optional<std::jthread> spoiler;
      if (world.rank() == 0)
        spoiler.emplace([&, world] {
          while (begun < kRanks * (round % 3)) std::this_thread::yield();
          world.abort("on purpose");
        });
      try {
        for (;;) {
          begun++;
          if (scatters)
            world.scatter(parts.span<const float>().first(world.rank() == 0 ? kRanks * kBytes / 4 : 0),
                          x.span<float>());
          else if (gathers)
            world.all_gather(std::span<const float>(part.first(kBytes / 16)), x.span<float>());
          else
            world.all_reduce(x.span<float>());
        }
      } catch (const Aborted&) {
        failed++;
      }
      // A mark on each page: quick, so that whoever is still at work comes after it.
      for (std::size_t at = 0; at < kBytes; at += 4096) x.data()[at] = std::byte{0x6b};
      all.arrive_and_wait();
      for (std::size_t at = 0; at < kBytes; at += 4096) ASSERT_EQ(static_cast<int>(x.data()[at]), 0x6b) << world.rank();
    });
    failures += failed;
  }
  EXPECT_EQ(failures, kRounds * kRanks);
}

TEST(SharedBuffers, ARankThatNeverComesIsATimeout) {
  std::atomic<int> over{0};
  spawn_threads(3, [&](Group world) {
    const Buffer x = world.allocate(1 << 20);
    Options o;
    o.timeout = std::chrono::milliseconds(100);
    if (world.rank() != 2) {
      try {
        world.all_reduce(x.span<float>(), ReduceOp::sum, o);
        ADD_FAILURE() << "rank 2 did not take part";
      } catch (const Timeout& e) {
        EXPECT_EQ(e.missing, std::vector<int>{2}) << e.what();
      }
      over++;
    }
    while (over < 2) std::this_thread::yield();
  });
}

TEST(Buffers, OutliveTheirGroupAndContext) {
  std::vector<Buffer> kept(2);
  spawn_threads(2, [&](Group world) {
    Buffer x = world.allocate(3 << 20);
    EXPECT_TRUE(x.shared());
    std::fill(x.span<int>().begin(), x.span<int>().end(), 1);
    world.all_reduce(x.span<int>());
    kept[static_cast<std::size_t>(world.rank())] = std::move(x);
    EXPECT_EQ(x.data(), nullptr);
  });
  for (const Buffer& x : kept)
    for (int& v : x.span<int>()) ASSERT_EQ(v++, 2);
}

TEST(Buffers, AreAlignedAndReused) {
  spawn_threads(1, [](Group world) {
    const auto at = [](const Buffer& b) { return reinterpret_cast<std::uintptr_t>(b.data()); };
    const Buffer empty = world.allocate(0), small = world.allocate(65), page = world.allocate(5000),
                 large = world.allocate((2 << 20) + 1);
    EXPECT_EQ(empty.size(), 0u);
    EXPECT_EQ(at(small) % 64, 0u);
    EXPECT_EQ(at(page) % 4096, 0u);
    EXPECT_EQ(at(large) % (2 << 20), 0u);
    EXPECT_EQ(large.size(), (2u << 20) + 1);
    Buffer again = world.allocate(1 << 20);
    const std::byte* before = again.data();
    again = Buffer();
    EXPECT_EQ(world.allocate((1 << 20) - 100).data(), before);
    EXPECT_THROW(world.allocate(std::size_t{1} << 60), SystemError);
  });
}

}  // namespace
}  // namespace unisono

/// Collectives on ordinary memory that was registered: the same results, at every alignment, and nobody touches what lies beside it.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "group/calls_on_memory.h"
#include "unisono/unisono.hpp"

namespace unisono {
namespace {

using test::equal_bytes;
using test::kMoving;
using test::kSanitized;
using test::on_private;
using test::run_on;

constexpr std::size_t kPage = 4096;
constexpr auto kNeighbour = std::byte{0x5d};

/// Ordinary memory, `offset` bytes behind the beginning of a page, with neighbours on both sides.
class Own {
 public:
  Own(const Group& group, std::size_t bytes, std::size_t offset, bool registers = true)
      : bytes_(bytes), memory_(bytes + offset + 3 * kPage, kNeighbour) {
    const auto at = reinterpret_cast<std::uintptr_t>(memory_.data());
    data_ = memory_.data() + (kPage - at % kPage) % kPage + offset;
    if (registers) registration_ = group.register_buffer(data_, bytes);
  }
  std::byte* data() const { return data_; }
  bool shared() const { return registration_.shared(); }
  bool neighbours_are_well() const {
    // The first is right and each is as the one before: one access for a sanitizer.
    const auto well = [](const std::byte* first, const std::byte* end) {
      return first == end ||
             (*first == kNeighbour && std::memcmp(first, first + 1, static_cast<std::size_t>(end - first) - 1) == 0);
    };
    return well(memory_.data(), data_) && well(data_ + bytes_, memory_.data() + memory_.size());
  }

 private:
  std::size_t bytes_;
  std::vector<std::byte> memory_;
  std::byte* data_;
  Registration registration_;
};

/// The call on registered memory, input and output at different alignments on every rank.
std::vector<std::byte> on_registered(const Group& world, const Call& call, bool in_place, std::size_t offset) {
  std::optional<Own> memory[2];
  auto result = run_on(world, call, in_place, [&](int which, std::size_t bytes) -> std::byte* {
    const std::size_t skew = (offset + static_cast<std::size_t>(which * 52 + world.rank() * 1024)) % kPage / 8 * 8;
    if (bytes == 0) return nullptr;
    return memory[which].emplace(world, bytes, skew).data();
  });
  for (const auto& m : memory) EXPECT_TRUE(!m || m->neighbours_are_well()) << name_of(call.collective);
  return result;
}

TEST(RegisteredBuffers, EveryCollectiveIsAsOnPrivateMemory) {
  for (const int n : kSanitized ? std::vector{2, 3} : std::vector{2, 3, 5})
    spawn_threads(n, [](Group world) {
      for (const Collective c : kMoving)
        for (const std::int64_t count : {2'100, 10'000, 70'001})
          for (const bool in_place : {false, true}) {
            if (in_place && c == Collective::all_to_all) continue;
            if (kSanitized && count > 50'000 && world.size() > 2) continue;
            Call call;
            call.collective = c;
            call.count = count;
            call.dtype = DType::f32;
            call.root = rooted(c) ? world.size() - 1 : 0;
            const auto expected = on_private(world, call);
            call.options.algorithm = count > 2'100 ? "shared" : "";
            const auto got = on_registered(world, call, in_place, static_cast<std::size_t>(count % 3) * 1000);
            ASSERT_TRUE(equal_bytes(expected, got)) << name_of(c) << " of " << count << " among " << world.size()
                                                    << " on rank " << world.rank() << (in_place ? " in place" : "");
            if (c != Collective::all_gather) continue;
            call.options.algorithm = "shared_by_owner";
            ASSERT_TRUE(equal_bytes(expected, on_registered(world, call, in_place, 1000)))
                << "by owners, of " << count << " among " << world.size() << " on rank " << world.rank()
                << (in_place ? " in place" : "");
          }
    });
}

TEST(RegisteredBuffers, AreOrdinaryMemoryAfterTheyWereDiscarded) {
  spawn_threads(2, [](Group world) {
    std::vector<float> data(100'000, 1.0F);
    Registration registration = world.register_buffer(std::span(data));
    world.all_reduce(std::span(data));
    EXPECT_EQ(data[50'000], 2.0F);
    registration.discard();
    EXPECT_FALSE(registration);
    std::fill(data.begin(), data.end(), 3.0F);
    world.all_reduce(std::span(data));
    EXPECT_EQ(data[50'000], 6.0F);
  });
}

TEST(RegisteredBuffers, NoMoreThanThereIsRoomFor) {
  constexpr std::size_t kHuge = std::size_t{1} << 40;
  void* const at = ::mmap(nullptr, kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) GTEST_SKIP() << "the system does not give a terabyte of addresses";
  spawn_threads(2, [&](Group world) {
    try {
      (void)world.register_buffer(at, kHuge);
      ADD_FAILURE() << "a terabyte was registered";
    } catch (const SystemError& e) {
      EXPECT_NE(std::string(e.what()).find("bytes of memory are free"), std::string::npos) << e.what();
    }
  });
  ::munmap(at, kHuge);
}

/// All kinds at once: some ranks' memory is registered, some ranks' allocated, some ranks' ordinary.
TEST(RegisteredBuffers, WithOtherKindsOnOtherRanks) {
  spawn_threads(3, [](Group world) {
    for (const Collective c : kMoving)
      for (int kinds = 0; kinds < 27; kinds += kSanitized ? 2 : 1) {
        constexpr int kOf[] = {1, 3, 9};
        const int kind = kinds / kOf[world.rank()] % 3;
        Call call;
        call.collective = c;
        call.count = kSanitized ? 8'011 : 30'011;
        call.dtype = DType::f32;
        call.root = rooted(c) ? kinds % 3 : 0;
        const auto expected = on_private(world, call);
        Buffer buffers[2];
        const auto on_shared = [&] {
          return run_on(world, call, false, [&](int which, std::size_t bytes) {
            buffers[which] = world.allocate(bytes);
            return bytes == 0 ? nullptr : buffers[which].data();
          });
        };
        const auto got = kind == 0   ? on_private(world, call)
                         : kind == 1 ? on_shared()
                                     : on_registered(world, call, false, 16);
        ASSERT_TRUE(equal_bytes(expected, got)) << name_of(c) << " kinds " << kinds << " on rank " << world.rank();
      }
  });
}

/// As buckets are used: many operations on parts of one array, also with ends on one page.
TEST(RegisteredBuffers, PartsInFlightTogether) {
  spawn_threads(4, [](Group world) {
    constexpr std::size_t kPart = 5'001, kParts = 24;
    const Own own(world, kPart * kParts * sizeof(std::int64_t), 24);
    ASSERT_TRUE(own.shared());
    const std::span data(reinterpret_cast<std::int64_t*>(own.data()), kPart * kParts);
    Group half = world.split(world.rank() % 2);
    for (int round = 0; round < 5; round++) {
      std::fill(data.begin(), data.end(), round);
      std::vector<Work> works;
      for (std::size_t part = 0; part < kParts; part++)
        works.push_back((part % 2 != 0 ? world : half).all_reduce_async(data.subspan(part * kPart, kPart)));
      for (const Work& w : works) w.wait();
      for (std::size_t i = 0; i < data.size(); i++) ASSERT_EQ(data[i], round * (i / kPart % 2 != 0 ? 4 : 2)) << i;
    }
    EXPECT_TRUE(own.neighbours_are_well());
  });
}

/// The first and last element lie on pages of their owner's: what it writes there between two operations counts.
TEST(RegisteredBuffers, TheEndsAreNeverStale) {
  spawn_threads(3, [](Group world) {
    const Own own(world, 40'000, 4'000);
    const std::span data(reinterpret_cast<std::int32_t*>(own.data()), 10'000);
    Options o;
    o.algorithm = "shared";
    for (int round = 1; round < 50; round++) {
      std::fill(data.begin(), data.end(), 1);
      data.front() = data.back() = round;
      world.all_reduce(data, ReduceOp::sum, o);
      ASSERT_EQ(data.front(), 3 * round);
      ASSERT_EQ(data[1], 3);
      ASSERT_EQ(data.back(), 3 * round);
    }
  });
}

TEST(RegisteredBuffers, AreOrdinaryOnesAfterwards) {
  spawn_threads(2, [](Group world) {
    std::vector<float> x(50'000, 1.0F);
    Registration registration = world.register_buffer(std::span(x));
    EXPECT_TRUE(registration.shared());
    EXPECT_EQ(registration.data(), reinterpret_cast<std::byte*>(x.data()));
    EXPECT_EQ(registration.size(), x.size() * sizeof(float));
    world.all_reduce(std::span(x));
    registration.release();
    EXPECT_FALSE(registration.shared());
    for (const float v : x) ASSERT_EQ(v, 2.0F);
    world.all_reduce(std::span(x));
    for (const float v : x) ASSERT_EQ(v, 4.0F);
    registration = world.register_buffer(std::span(x));
    Registration moved = std::move(registration);
    EXPECT_TRUE(moved.shared());
    EXPECT_FALSE(registration);
    Options o;
    o.algorithm = "shared";
    world.all_reduce(std::span(x), ReduceOp::sum, o);
    for (const float v : x) ASSERT_EQ(v, 8.0F);
    moved = Registration();
    try {
      world.all_reduce(std::span(x), ReduceOp::sum, o);
      ADD_FAILURE() << "it ran on private memory";
    } catch (const InvalidArgument& e) {
      EXPECT_NE(std::string(e.what()).find("registered"), std::string::npos) << e.what();
    }
    world.barrier();
  });
}

TEST(RegisteredBuffers, WhatNeedsNoRegistrationAndWhatCannotBe) {
  spawn_threads(2, [](Group world) {
    const Buffer shared = world.allocate(1 << 20);
    const Registration on_shared = world.register_buffer(shared.span<float>());
    EXPECT_TRUE(on_shared.shared()) << "it is shared as it is";
    std::vector<std::byte> small(100);
    const Registration on_small = world.register_buffer(std::span(small));
    EXPECT_TRUE(on_small);
    EXPECT_FALSE(on_small.shared()) << "it covers no page";
    EXPECT_TRUE(world.register_buffer(nullptr, 0));
    std::vector<float> x(100'000);
    const Registration once = world.register_buffer(std::span(x));
    try {
      const Registration twice = world.register_buffer(std::span(x));
      ADD_FAILURE() << "it was registered twice";
    } catch (const InvalidArgument& e) {
      EXPECT_NE(std::string(e.what()).find("register_buffer"), std::string::npos) << e.what();
    }
  });
}

/// The memory may go while another rank has not noticed a failure yet; what it was is no longer what it reaches.
TEST(RegisteredBuffers, AfterAnAbortTheMemoryIsTheCallers) {
  for (int round = 0; round < (kSanitized ? 4 : 10); round++)
    spawn_threads(3, [&](Group world) {
      std::vector<std::byte> x(8 << 20);
      Registration registration = world.register_buffer(std::span(x));
      try {
        for (int i = 0;; i++) {
          if (world.rank() == 0 && i == round % 4) world.abort("on purpose");
          world.all_reduce(std::span(reinterpret_cast<float*>(x.data()), x.size() / 4));
        }
      } catch (const Aborted&) {
      }
      registration.release();
      std::memset(x.data(), 0x6b, x.size());
    });
}

TEST(RegisteredBuffers, OutliveTheirGroup) {
  std::vector<std::vector<int>> memory(2, std::vector<int>(100'000, 1));
  std::vector<Registration> registrations(2);
  spawn_threads(2, [&](Group world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    registrations[rank] = world.register_buffer(std::span(memory[rank]));
    world.all_reduce(std::span(memory[rank]));
  });
  for (auto& x : memory)
    for (int& v : x) ASSERT_EQ(v++, 2);
  registrations.clear();
  for (const auto& x : memory)
    for (const int v : x) ASSERT_EQ(v, 3);
}

}  // namespace
}  // namespace unisono

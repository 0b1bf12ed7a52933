/// Operands that travel with the announcements: the same results as by an algorithm, on both sides of every limit.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include "calls_on_memory.h"
#include "plan/inline.h"
#include "plan/registry.h"

namespace unisono {
namespace {

/// The first algorithm that the collective has anywhere: it needs nothing but messages.
std::string_view any_algorithm(Collective c) {
  const auto all = plan::algorithms();
  return std::find_if(all.begin(), all.end(), [&](const plan::Algorithm& a) { return a.collective == c; })->name;
}

/// Counts of bytes around the limits.
std::vector<std::int64_t> counts_of(Collective c, int ranks) {
  std::vector<std::int64_t> counts{1, plan::kInLine - 1, plan::kInLine, plan::kInLine + 1, 300};
  std::int64_t most = plan::kMostPosted;
  while (!plan::goes_inline(c, ranks, most)) most--;
  counts.insert(counts.end(), {most - 1, most, most + 1});
  return counts;
}

TEST(InlineSizes, GiveWhatAnAlgorithmGives) {
  for (const int n : {2, 3, 5})
    spawn_threads(n, [&](const Group& world) {
      for (const Collective c : test::kMoving)
        for (const std::int64_t count : counts_of(c, n))
          for (const bool in_place : {false, true}) {
            Call call;
            call.collective = c;
            call.count = count;
            call.dtype = DType::u8;
            call.root = c == Collective::gather ? n - 1 : n / 2;
            const auto run = [&] {
              std::vector<std::byte> memory[2];
              return test::run_on(world, call, in_place && c != Collective::all_to_all,
                                  [&](int which, std::size_t bytes) {
                                    memory[which].resize(bytes);
                                    return bytes == 0 ? nullptr : memory[which].data();
                                  });
            };
            const auto found = run();
            call.options.algorithm = any_algorithm(c);
            EXPECT_TRUE(test::equal_bytes(found, run())) << name_of(c) << ", " << count << " bytes, " << n << " ranks";
          }
    });
}

TEST(InlineSizes, LimitsAreWhatRanksPostAndRead) {
  using plan::goes_inline;
  EXPECT_TRUE(goes_inline(Collective::broadcast, 100, plan::kMostPosted));
  EXPECT_FALSE(goes_inline(Collective::broadcast, 100, plan::kMostPosted + 1));
  EXPECT_TRUE(goes_inline(Collective::broadcast, 2, plan::kMostOfTwo));
  EXPECT_FALSE(goes_inline(Collective::broadcast, 2, plan::kMostOfTwo + 1));
  EXPECT_TRUE(goes_inline(Collective::all_reduce, 2, plan::kMostOfTwo));
  EXPECT_FALSE(goes_inline(Collective::all_reduce, 2, plan::kMostOfTwo + 1));
  EXPECT_TRUE(goes_inline(Collective::all_to_all, 8, plan::kMostPosted / 8));
  EXPECT_FALSE(goes_inline(Collective::all_to_all, 8, plan::kMostPosted / 8 + 1));
  EXPECT_TRUE(goes_inline(Collective::all_reduce, 4, plan::kMostPosted));
  EXPECT_TRUE(goes_inline(Collective::all_reduce, 8, plan::kMostRead / 8));
  EXPECT_FALSE(goes_inline(Collective::all_reduce, 8, plan::kMostRead / 8 + 1));
  EXPECT_TRUE(goes_inline(Collective::all_reduce, 10'000, plan::kInLine));
  EXPECT_FALSE(goes_inline(Collective::scatter, 1'000'000, INT64_MAX / 2));
}

/// Nobody's memory is written again before all have read it: results tell, as each call has other numbers, and now one rank is late and now another.
TEST(InlineSizes, BackToBack) {
  const int calls = test::kSanitized ? 1'000 : 4'000;
  for (const int n : {2, 4})
    spawn_threads(n, [&](const Group& world) {
      const std::int64_t last = n - 1;
      for (std::int64_t i = 0; i < calls; i++) {
        std::vector<std::int64_t> x(static_cast<std::size_t>(1 + i * 37 % 512));
        std::iota(x.begin(), x.end(), i + (i % 2 == 0 ? world.rank() : 0));
        if (i % 7 == world.rank()) std::this_thread::yield();
        if (i % 2 == 0)
          world.all_reduce(std::span(x), ReduceOp::max);
        else
          world.broadcast(std::span(x), static_cast<int>(i % n));
        for (std::size_t k = 0; k < x.size(); k++)
          ASSERT_EQ(x[k], i + static_cast<std::int64_t>(k) + (i % 2 == 0 ? last : 0))
              << "call " << i << ", element " << k;
      }
    });
}

/// Who only hands something out, or in, does not wait until it is taken.
TEST(InlineSizes, NobodyWaitsWithoutNeed) {
  spawn_threads(3, [](const Group& world) {
    const Group other = world.split(0);
    const auto meet = [&] { other.barrier(); };
    std::vector<std::int64_t> x(100, world.rank() == 1 ? 7 : 0), all(300);
    // The root hands out before the others come, who first wait for it elsewhere.
    if (world.rank() != 1) meet();
    world.broadcast(std::span(x), 1);
    if (world.rank() == 1) meet();
    for (const auto v : x) ASSERT_EQ(v, 7);
    // The others hand in before the root comes.
    std::fill(x.begin(), x.end(), world.rank());
    if (world.rank() == 1) meet();
    world.gather(std::span<const std::int64_t>(x), std::span(all), 1);
    if (world.rank() != 1) meet();
    for (std::size_t k = 0; k < all.size() && world.rank() == 1; k++)
      ASSERT_EQ(all[k], static_cast<std::int64_t>(k / 100));
  });
}

}  // namespace
}  // namespace unisono

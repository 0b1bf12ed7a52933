#include "engine/binding.h"

#include <gtest/gtest.h>

#include <numeric>

namespace unisono::engine {
namespace {

plan::Plan plan_of(Collective c, int ranks, int rank, std::vector<std::int32_t> in, std::vector<std::int32_t> out,
                   int extents) {
  plan::Plan p;
  p.collective = c;
  p.shape = {ranks, rank, 0};
  p.in_extent = std::move(in);
  p.out_extent = std::move(out);
  p.extents = extents;
  return p;
}

TEST(Binding, AVectorIsCutWithoutGapsOrOverlaps) {
  for (const std::int64_t count : {0, 1, 2, 3, 7, 100, 1000, 4096, 100003}) {
    for (const int blocks : {1, 2, 3, 5, 16, 33}) {
      std::vector<std::int32_t> all(static_cast<std::size_t>(blocks));
      std::iota(all.begin(), all.end(), 0);
      const Binding b = bind(plan_of(Collective::all_reduce, blocks, 0, all, all, blocks), {count, {}, {}}, DType::f32);
      EXPECT_EQ(b.in.total(), count * 4);
      std::int64_t largest = 0;
      for (int i = 0; i < blocks; i++) {
        EXPECT_GE(b.in.size(i), 0);
        EXPECT_EQ(b.in.size(i) % 4, 0);
        largest = std::max(largest, b.in.size(i));
      }
      EXPECT_EQ(b.largest_block, largest);
      EXPECT_LE(largest, count * 4 / blocks + 64 + 4) << count << " in " << blocks;
    }
  }
}

TEST(Binding, LargeVectorsAreCutAtCacheLines) {
  std::vector<std::int32_t> all{0, 1, 2};
  const Binding b = bind(plan_of(Collective::all_reduce, 3, 0, all, all, 3), {1000003, {}, {}}, DType::i16);
  for (int i = 0; i < 3; i++) EXPECT_EQ(b.in.offset[static_cast<std::size_t>(i)] % 64, 0);
}

TEST(Binding, CountsOfEachRankAreUsed) {
  const std::vector<std::int64_t> counts{3, 0, 5};
  const Binding b = bind(plan_of(Collective::all_gather, 3, 2, {2}, {0, 1, 2}, 3), {0, counts, {}}, DType::f64);
  EXPECT_EQ(b.in.offset, (std::vector<std::int64_t>{0, 40}));
  EXPECT_EQ(b.out.offset, (std::vector<std::int64_t>{0, 24, 24, 64}));
  EXPECT_EQ(b.largest_block, 40);
}

TEST(Binding, AllToAllUsesRowAndColumn) {
  const std::vector<std::int64_t> send{1, 2}, receive{4, 2};
  const Binding b = bind(plan_of(Collective::all_to_all, 2, 1, {2, 3}, {1, 3}, 4), {0, send, receive}, DType::i8);
  EXPECT_EQ(b.in.offset, (std::vector<std::int64_t>{0, 1, 3}));
  EXPECT_EQ(b.out.offset, (std::vector<std::int64_t>{0, 4, 6}));
}

TEST(Binding, SixtyFourBitSizes) {
  std::vector<std::int32_t> all{0, 1};
  const std::int64_t count = (std::int64_t{1} << 33) + 3;
  const Binding b = bind(plan_of(Collective::all_reduce, 2, 0, all, all, 2), {count, {}, {}}, DType::f64);
  EXPECT_EQ(b.in.total(), count * 8);
}

}  // namespace
}  // namespace unisono::engine

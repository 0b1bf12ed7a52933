/// `unisono bench --check` must accept what is right in any order of reduction, and notice what is
/// not.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "cli/bench/values.h"
#include "kernels/kernels.h"

namespace unisono::cli {
namespace {

using Buffer = std::vector<unsigned char>;

Buffer input_of(const Problem& p, int rank) {
  Buffer buffer(static_cast<std::size_t>(input_elements(p, rank)) * size_of(p.dtype));
  fill_input(p, rank, buffer.data());
  return buffer;
}

/// The inputs of these ranks, in that order, reduced element by element.
Buffer reduced(const Problem& p, const std::vector<int>& ranks) {
  std::vector<Buffer> inputs;
  std::vector<const void*> src;
  for (const int rank : ranks) inputs.push_back(input_of(p, rank));
  for (const Buffer& input : inputs) src.push_back(input.data());
  Buffer result(inputs[0].size());
  kernels::reduce_reference({p.dtype, p.op, p.op == ReduceOp::avg ? p.size : 1}, result.data(), nullptr, src,
                            result.size() / size_of(p.dtype));
  return result;
}

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

template <class F>
void for_each_reduction(const F& f) {
  for (int d = 0; d < kDTypes; d++)
    for (int o = 0; o < kReduceOps; o++)
      for (const int size : {1, 2, 3, 8, 33, 128}) {
        const auto dtype = static_cast<DType>(d);
        const auto op = static_cast<ReduceOp>(o);
        if (!supports(op, dtype)) continue;
        SCOPED_TRACE(testing::Message() << name_of(op) << " of " << name_of(dtype) << " among " << size);
        f(Problem{Collective::all_reduce, dtype, op, 0, size, 1000});
      }
}

TEST(BenchValues, AreExactInAnyOrder) {
  for_each_reduction([](const Problem& p) {
    auto ranks = all_ranks(p.size);
    EXPECT_EQ(wrong_in_output(p, 0, reduced(p, ranks).data()), 0);
    std::reverse(ranks.begin(), ranks.end());
    EXPECT_EQ(wrong_in_output(p, 0, reduced(p, ranks).data()), 0);
  });
}

TEST(BenchValues, NoticeAMissingRank) {
  for_each_reduction([](const Problem& p) {
    for (const int missing : {0, p.size / 2, p.size - 1}) {
      auto ranks = all_ranks(p.size);
      ranks.erase(ranks.begin() + missing);
      if (ranks.empty()) continue;
      EXPECT_GT(wrong_in_output(p, 0, reduced(p, ranks).data()), 0) << "without " << missing;
    }
  });
}

TEST(BenchValues, NoticeARankCountedTwice) {
  for_each_reduction([](const Problem& p) {
    if (p.op != ReduceOp::sum && p.op != ReduceOp::avg && p.op != ReduceOp::product && p.op != ReduceOp::bxor) return;
    if (p.dtype == DType::boolean && p.op != ReduceOp::bxor) return;  // "or" and "and": twice is once
    if (p.op == ReduceOp::avg && p.size == 1) return;
    auto ranks = all_ranks(p.size);
    ranks.push_back(p.size / 2);
    EXPECT_GT(wrong_in_output(p, 0, reduced(p, ranks).data()), 0);
  });
}

TEST(BenchValues, CountEveryWrongElement) {
  const Problem p{Collective::all_reduce, DType::f32, ReduceOp::sum, 0, 4, 1000};
  Buffer result = reduced(p, all_ranks(4));
  for (const std::size_t i : {0, 17, 999}) result[i * 4 + 3] ^= 1;
  EXPECT_EQ(wrong_in_output(p, 2, result.data()), 3);
  Buffer input = input_of(p, 1);
  EXPECT_EQ(wrong_in_input(p, 1, input.data()), 0);
  EXPECT_NE(wrong_in_input(p, 0, input.data()), 0) << "another rank's";
  input[8] ^= 1;
  EXPECT_EQ(wrong_in_input(p, 1, input.data()), 1);
}

Buffer block(const Buffer& all, int index, int size) {
  const std::size_t bytes = all.size() / static_cast<std::size_t>(size);
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(bytes) * index;
  return {begin, begin + static_cast<std::ptrdiff_t>(bytes)};
}

TEST(BenchValues, MoveBlocks) {
  constexpr int kSize = 3, kRoot = 1;
  for (const DType dtype : {DType::bf16, DType::f64, DType::i8}) {
    Problem p{Collective::all_gather, dtype, ReduceOp::sum, kRoot, kSize, 50};
    Buffer joined;
    for (int q = 0; q < kSize; q++) {
      const Buffer part = input_of(p, q);
      joined.insert(joined.end(), part.begin(), part.end());
    }
    EXPECT_EQ(wrong_in_output(p, 2, joined.data()), 0);
    p.collective = Collective::gather;
    EXPECT_EQ(wrong_in_output(p, kRoot, joined.data()), 0);
    std::rotate(joined.begin(), joined.begin() + static_cast<std::ptrdiff_t>(joined.size() / kSize), joined.end());
    EXPECT_GT(wrong_in_output(p, kRoot, joined.data()), 100) << "blocks in the wrong order";

    p.collective = Collective::scatter;
    const Buffer whole = input_of(p, kRoot);
    for (int q = 0; q < kSize; q++) EXPECT_EQ(wrong_in_output(p, q, block(whole, q, kSize).data()), 0);
    EXPECT_GT(wrong_in_output(p, 0, block(whole, 2, kSize).data()), 40);

    p.collective = Collective::broadcast;
    EXPECT_EQ(wrong_in_output(p, 2, input_of(p, kRoot).data()), 0);

    p.collective = Collective::all_to_all;
    Buffer got;
    for (int q = 0; q < kSize; q++) {
      const Buffer part = block(input_of(p, q), 2, kSize);
      got.insert(got.end(), part.begin(), part.end());
    }
    EXPECT_EQ(wrong_in_output(p, 2, got.data()), 0);
    EXPECT_GT(wrong_in_output(p, 1, got.data()), 100);

    p.collective = Collective::reduce_scatter;
    const Buffer sums = reduced(p, all_ranks(kSize));
    for (int q = 0; q < kSize; q++) EXPECT_EQ(wrong_in_output(p, q, block(sums, q, kSize).data()), 0);
  }
}

TEST(BenchValues, SizesAreThoseOfTheCollective) {
  Problem p{Collective::all_reduce, DType::f64, ReduceOp::sum, 1, 4, 10};
  EXPECT_EQ(total_bytes(p), 80);
  p.collective = Collective::reduce;
  EXPECT_EQ(output_elements(p, 0), 0);
  EXPECT_EQ(output_elements(p, 1), 10);
  p.collective = Collective::all_gather;
  EXPECT_EQ(total_bytes(p), 320);
  EXPECT_EQ(input_elements(p, 3), 10);
  EXPECT_EQ(output_elements(p, 3), 40);
  p.collective = Collective::scatter;
  EXPECT_EQ(input_elements(p, 0), 0);
  EXPECT_EQ(input_elements(p, 1), 40);
  p.collective = Collective::barrier;
  EXPECT_EQ(total_bytes(p), 0);
}

}  // namespace
}  // namespace unisono::cli

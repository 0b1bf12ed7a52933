/// Algorithms over messages on vectors of several slices, whose sums are made as the messages come (engine/fold.h).

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "group/calls_on_memory.h"
#include "unisono/unisono.hpp"

namespace unisono {
namespace {

constexpr std::size_t kCount = 600'001;  // with ring's blocks, too, more than one slice each

std::vector<float> operand(int rank) {
  std::vector<float> x(kCount);
  for (std::size_t i = 0; i < kCount; i++)
    x[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 31) % 1009);
  return x;
}

std::vector<float> sum(int ranks) {
  std::vector<float> total(kCount);
  for (int r = 0; r < ranks; r++) {
    const auto x = operand(r);
    for (std::size_t i = 0; i < kCount; i++) total[i] += x[i];
  }
  return total;
}

using test::kSanitized;

class SumsOfMessages : public testing::TestWithParam<std::string> {};

TEST_P(SumsOfMessages, AreRightInPlaceAndOut) {
  for (const int n : kSanitized ? std::vector{3} : std::vector{2, 3, 4}) {
    const auto expected = sum(n);
    spawn_threads(n, [&](Group world) {
      Options o;
      o.algorithm = GetParam();
      const auto mine = operand(world.rank());
      std::vector<float> out(kCount, -1);
      world.all_reduce(std::span(mine), std::span(out), ReduceOp::sum, o);
      ASSERT_EQ(out, expected);
      out = mine;
      world.all_reduce(std::span(out), ReduceOp::sum, o);
      ASSERT_EQ(out, expected);
      // By the progress thread.
      out = mine;
      auto work = world.all_reduce_async(std::span(out), ReduceOp::sum, o);
      work.wait();
      ASSERT_EQ(out, expected);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, SumsOfMessages,
                         testing::ValuesIn(kSanitized
                                               ? std::vector<std::string>{"ring", "binomial"}
                                               : std::vector<std::string>{"ring", "binomial", "recursive_doubling",
                                                                          "circulant", "direct"}),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace unisono

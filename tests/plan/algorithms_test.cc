/// Every algorithm of the table is proved for small groups, and for every root.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "plan/registry.h"
#include "plan/verify.h"

namespace unisono::plan {

void PrintTo(const Algorithm& algorithm, std::ostream* out) {
  *out << name_of(algorithm.collective) << ' ' << algorithm.name;
}

namespace {

class EveryAlgorithm : public testing::TestWithParam<Algorithm> {};

TEST_P(EveryAlgorithm, IsProvedForUpToSeventeenRanksAndEveryRoot) {
  const Algorithm& algorithm = GetParam();
  for (std::int32_t n = 1; n <= 17; n++) {
    for (std::int32_t root = 0; root < (rooted(algorithm.collective) ? n : 1); root++) {
      const Report report = verify(algorithm, n, root);
      ASSERT_TRUE(report.ok()) << "n=" << n << " root=" << root << "\n" << report.text();
    }
  }
}

TEST_P(EveryAlgorithm, IsFoundUnderItsName) {
  const Algorithm& algorithm = GetParam();
  const Algorithm* found = find_algorithm(algorithm.collective, algorithm.name);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->build, algorithm.build);
  EXPECT_EQ(algorithm.build({3, 1, 0}).algorithm, algorithm.name);
  EXPECT_EQ(algorithm.build({3, 1, 0}).collective, algorithm.collective);
}

TEST_P(EveryAlgorithm, UsesStagesExactlyInSharedMemory) {
  const Algorithm& algorithm = GetParam();
  EXPECT_EQ(algorithm.build({4, 2, 1}).staged, needs_one_host(algorithm.place));
  EXPECT_EQ(algorithm.build({4, 2, 1}).shared,
            needs_shared_buffers(algorithm.place) || algorithm.place == Place::peer_memory);
}

INSTANTIATE_TEST_SUITE_P(Table, EveryAlgorithm, testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& row) {
                           return std::string(name_of(row.param.collective)) + "_" + std::string(row.param.name);
                         });

}  // namespace
}  // namespace unisono::plan

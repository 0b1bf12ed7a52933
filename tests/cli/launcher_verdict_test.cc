/// Which rank's failure caused the others', whatever the order of their ends.

#include "cli/launcher_verdict.h"

#include <gtest/gtest.h>

namespace unisono::cli {
namespace {

constexpr Ending kGood{0, false, false}, kFailed{1, false, false}, kTerminated{15, true, false};

RankEnd end(int rank, std::optional<Ending> ending, const std::vector<int>& culprits = {}) {
  RankEnd e{rank, 100 + rank, ending, false, {}};
  for (const int culprit : culprits) e.culprits.push_back({"here", 100 + culprit, culprit});
  return e;
}

TEST(Verdict, WhoNamesNobodyIsTheCause) {
  const std::vector<RankEnd> ends{end(0, kFailed), end(1, std::nullopt)};
  EXPECT_EQ(first_in_cause(ends, 0), 0);
  EXPECT_EQ(describe_culprits(ends, 0), "");
}

TEST(Verdict, AlongAChain) {
  const std::vector<RankEnd> ends{end(4, kFailed, {5}), end(5, kFailed, {6}), end(6, Ending{3, false, false}),
                                  end(7, kGood)};
  EXPECT_EQ(first_in_cause(ends, 4), 6);
}

TEST(Verdict, WaitsForWhoeverIsNamedAndRuns) {
  std::vector<RankEnd> ends{end(0, kFailed, {1}), end(1, std::nullopt)};
  EXPECT_EQ(first_in_cause(ends, 0), std::nullopt);
  ends[1] = end(1, kFailed);
  EXPECT_EQ(first_in_cause(ends, 0), 1);
}

TEST(Verdict, WhoEndedWellOrWasEndedIsNotTheCause) {
  std::vector<RankEnd> ends{end(0, kFailed, {1}), end(1, kGood)};
  EXPECT_EQ(first_in_cause(ends, 0), 0);
  EXPECT_EQ(describe_culprits(ends, 0), "; its error names rank 1, which had ended with status 0");
  ends[1] = end(1, kTerminated);
  ends[1].ended_by_us = true;
  EXPECT_EQ(first_in_cause(ends, 0), 0);
  EXPECT_EQ(describe_culprits(ends, 0), "; its error names rank 1, which ran until it was ended");
}

TEST(Verdict, ErrorsWhileEverythingEndsDoNotHideTheFirst) {
  // 0 and 1 each met the other's end while they cleaned up; 2 was before.
  const std::vector<RankEnd> ends{end(0, kFailed, {2, 1}), end(1, kFailed, {0, 2}), end(2, kFailed)};
  EXPECT_EQ(first_in_cause(ends, 0), 2);
  EXPECT_EQ(first_in_cause(ends, 1), 2);
}

TEST(Verdict, AProcessOfAnotherLauncher) {
  std::vector<RankEnd> ends{end(0, kFailed)};
  ends[0].culprits.push_back({"there", 7, -1});
  EXPECT_EQ(first_in_cause(ends, 0), 0);
  EXPECT_EQ(describe_culprits(ends, 0), "; its error names pid 7 on host there");
}

TEST(Verdict, EndsThatAreAlikeAreToldTogether) {
  const std::vector<RankEnd> ends{end(0, kFailed), end(1, kGood), end(2, kFailed), end(3, kTerminated)};
  EXPECT_EQ(describe_others(ends, 3), "; ranks 0,2: exited with status 1; rank 1: exited with status 0");
}

}  // namespace
}  // namespace unisono::cli

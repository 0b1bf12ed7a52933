/// How ranks wait, as it follows from who else is on the cores.

#include <gtest/gtest.h>

#include "group/context_impl.h"

namespace unisono::detail {
namespace {

TEST(Waiting, AGroupWithMoreRanksThanCoresDecidesForAll) {
  if (engine::within_quota(2) < 2) GTEST_SKIP() << "SKIPPED: a control group allows less than two cores";
  const auto context = ContextImpl::create(Config{}, nullptr);
  const auto& progress = *context->progress;
  context->share_cores(2, 2, std::nullopt);
  EXPECT_GT(progress.short_wait(), 1);
  context->share_cores(3, 2, std::nullopt);
  EXPECT_EQ(progress.short_wait(), 1) << "they take turns";
  context->share_cores(2, 2, std::nullopt);
  EXPECT_EQ(progress.short_wait(), 1) << "the three are still there";
}

TEST(Waiting, RanksThatAreBoundToACoreEachAreAloneThere) {
  if (engine::within_quota(64) < 64) GTEST_SKIP() << "SKIPPED: a control group allows less than 64 cores";
  const auto context = ContextImpl::create(Config{}, nullptr);
  context->share_cores(64, 64, std::nullopt);  // though this process may use fewer
  EXPECT_GT(context->progress->short_wait(), 1);
}

}  // namespace
}  // namespace unisono::detail

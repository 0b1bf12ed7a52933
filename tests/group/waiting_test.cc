/// How ranks wait, as it follows from who else is on the cores.

#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <vector>

#include "base/host_topology.h"
#include "group/context_impl.h"

namespace unisono::detail {
namespace {

using Processors = std::vector<std::vector<int>>;  // that each rank of a host may run on

TEST(Waiting, AGroupWithMoreRanksThanCoresDecidesForAll) {
  if (engine::within_quota(2) < 2) GTEST_SKIP() << "SKIPPED: a control group allows less than two cores";
  const auto context = ContextImpl::create(Config{}, nullptr);
  const auto& progress = *context->progress;
  context->share_cores(0, Processors(2, {0, 1}));
  EXPECT_GT(progress.short_wait(), 1);
  context->share_cores(0, Processors(3, {0, 1}));
  EXPECT_EQ(progress.short_wait(), 1) << "they take turns";
  context->share_cores(0, Processors(2, {0, 1}));
  EXPECT_EQ(progress.short_wait(), 1) << "the three are still there";
}

TEST(Waiting, RanksThatAreBoundToACoreEachAreAloneThere) {
  if (engine::within_quota(64) < 64) GTEST_SKIP() << "SKIPPED: a control group allows less than 64 cores";
  const auto context = ContextImpl::create(Config{}, nullptr);
  Processors each;
  for (int cpu = 0; cpu < 64; cpu++) each.push_back({cpu});
  context->share_cores(0, each);  // though this process may use fewer
  EXPECT_GT(context->progress->short_wait(), 1);
}

TEST(Waiting, WhoTakesTurnsComesBackToItsSeatWhateverItWaitsFor) {
  const std::vector<int> cpus = usable_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "SKIPPED: needs two processors";
  const auto context = ContextImpl::create(Config{}, nullptr);
  context->share_cores(2, Processors(3, {cpus[0], cpus[1]}));
  ASSERT_TRUE(move_to_cpu(cpus[0]));
  const TimePoint deadline = context->clock.now() + std::chrono::seconds(20);
  const auto outcome = context->progress->wait(nullptr, deadline, nullptr, [&] { return ::sched_getcpu() == cpus[1]; });
  EXPECT_EQ(outcome, group::Progress::Outcome::done);
  EXPECT_EQ(usable_cpus(), cpus) << "where it may run stays as it was";
}

}  // namespace
}  // namespace unisono::detail

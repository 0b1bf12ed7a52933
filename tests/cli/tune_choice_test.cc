/// From times to rules.

#include "cli/bench/tune_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/select.h"

namespace unisono::cli {
namespace {

const plan::Algorithm* algorithm(const char* name, Collective c = Collective::all_reduce) {
  const auto* found = plan::find_algorithm(c, name);
  EXPECT_NE(found, nullptr) << name;
  return found;
}

TunePoint point(std::int64_t bytes, std::vector<Candidate> candidates, std::size_t in_force = 0) {
  TunePoint p{Collective::all_reduce, bytes, false, std::move(candidates), in_force, 0, 0};
  choose(p);
  return p;
}

const Candidate kRing{algorithm("ring"), {10, 10, 10, 10}};

TEST(Choose, KeepsWhatIsInForceUnlessAnotherIsClearlyFaster) {
  EXPECT_EQ(point(1, {kRing, {algorithm("direct"), {9.5, 9.5, 9.5, 9.5}}}).chosen, 0u);
  EXPECT_EQ(point(1, {kRing, {algorithm("direct"), {9.5, 9.5, 9.5, 9.5}}}).best, 1u);
  EXPECT_EQ(point(1, {kRing, {algorithm("direct"), {8, 8, 8, 8}}}).chosen, 1u);
}

TEST(Choose, KeepsItWhenTheOtherOneWonByChance) {
  // The better median, but slower in every second round.
  EXPECT_EQ(point(1, {kRing, {algorithm("direct"), {5, 12, 5, 12, 5}}}).chosen, 0u);
}

TEST(Settle, GivesUpWhatIsFarBehindThoughTheRoundsDisagree) {
  TunePoint far = point(1, {kRing, {algorithm("direct"), {5, 12, 5, 12, 5}}});
  settle(far);
  EXPECT_EQ(far.chosen, 1u);
  TunePoint near = point(1, {kRing, {algorithm("direct"), {8.9, 12, 8.9, 12, 8.9}}});
  ASSERT_EQ(near.best, 1u);
  settle(near);
  EXPECT_EQ(near.chosen, 0u) << "1.12 times as slow";
}

TEST(Choose, LetsWhatWasDroppedWhileTheMachineWasQuickInAgain) {
  TunePoint p = point(1, {{algorithm("ring"), {4, 4, 4, 10, 10, 10, 10}}, {algorithm("direct"), {7, 7, 7}}});
  EXPECT_EQ(p.best, 0u);
  EXPECT_TRUE(p.unsettled());
  settle(p);
  EXPECT_EQ(p.chosen, 0u) << "nothing more will be measured: its few rounds do not count";
  EXPECT_FALSE(point(1, {kRing, {algorithm("direct"), {17, 17, 17}}}).unsettled());
}

TunePoint contested(std::vector<double> rival, std::vector<double> third) {
  TunePoint p{Collective::all_reduce, 1 << 20, false, {kRing}, 0, 0, 0};
  p.candidates.push_back({algorithm("single_copy"), std::move(rival)});
  p.candidates.push_back({algorithm("direct"), std::move(third)});
  p.rival = 1;
  choose(p);
  return p;
}

TEST(Choose, CountsAContestAsWhatWinsIt) {
  const TunePoint won = contested({5, 5, 5, 5}, {6, 6, 6, 6});
  EXPECT_EQ(won.chosen, won.in_force) << "the contest takes it by itself";
  EXPECT_EQ(won.runs(won.in_force), 1u);
  EXPECT_DOUBLE_EQ(won.ratio(won.runs(won.chosen)), 1);
  const TunePoint lost = contested({15, 15, 15, 15}, {10, 10, 10, 10});
  EXPECT_EQ(lost.runs(lost.in_force), 0u);
  EXPECT_EQ(contested({8, 8, 8, 8}, {6, 6, 6, 6}).chosen, 2u);
  EXPECT_EQ(contested({5, 5}, {10, 10, 10, 10}).runs(0), 0u) << "dropped";
}

TEST(Choose, ComparesRoundByRound) {
  // The machine was half as fast from the third round on: the medians say nothing, the rounds do.
  const Candidate slow{algorithm("ring"), {10, 10, 20, 20, 20}}, fast{algorithm("direct"), {8, 8, 16, 16, 16}};
  EXPECT_EQ(point(1, {slow, fast}).chosen, 1u);
}

TEST(Choose, TakesTheFastestOfThoseThatAreClearlyFaster) {
  const TunePoint p = point(1, {{algorithm("direct"), {7, 7, 7, 7}}, kRing, {algorithm("binomial"), {6, 6, 6, 6}}}, 1);
  EXPECT_EQ(p.chosen, 2u);
  EXPECT_DOUBLE_EQ(p.ratio(p.in_force), 10. / 6);
  EXPECT_DOUBLE_EQ(p.ratio(p.chosen), 1);
}

TEST(Rules, ReachToTheGeometricMeanAndLeaveTheRestAlone) {
  const Candidate direct{algorithm("direct"), {1, 1, 1, 1}};
  const std::vector<TunePoint> points = {point(4096, {kRing, direct}), point(1024, {kRing, direct}),
                                         point(16384, {kRing})};
  EXPECT_EQ(rules_of(points, "net", 4), "all_reduce@net[4]:512-8K=direct,8K-32K=ring");
}

TEST(Rules, OfSharedBuffersComeLastAndOnlyWhereTheyWin) {
  const Candidate staged{algorithm("staged_two_shot"), {5, 5, 5, 5}}, fast{algorithm("shared"), {1, 1, 1, 1}},
      slow{algorithm("shared"), {9, 9, 9, 9}};
  std::vector<TunePoint> points = {point(4096, {staged, slow}), point(16384, {staged, fast}), point(4096, {staged}),
                                   point(16384, {staged})};
  points[0].shared_buffers = points[1].shared_buffers = true;
  EXPECT_EQ(rules_of(points, "shm", 2), "all_reduce@shm[2]:2K-32K=staged_two_shot;all_reduce@shm[2]:8K-32K=shared");
}

TEST(Rules, ForSharedInputsAloneStandBeforeThoseThatNeedAllOutputs) {
  const auto candidate = [](const char* name, double seconds) {
    return Candidate{algorithm(name, Collective::all_gather), {seconds, seconds, seconds, seconds}};
  };
  const Candidate staged = candidate("staged", 5), pull = candidate("shared", 3), slow = candidate("shared", 9),
                  by_owner = candidate("shared_by_owner", 1);
  std::vector<TunePoint> points = {point(4096, {staged, pull, by_owner}), point(65536, {staged, slow, by_owner}),
                                   point(4096, {staged}), point(65536, {staged})};
  for (TunePoint& p : points) p.collective = Collective::all_gather;
  points[0].shared_buffers = points[1].shared_buffers = true;
  const std::string text = rules_of(points, "shm", 3);
  EXPECT_EQ(text,
            "all_gather@shm[3]:2K-128K=staged;all_gather@shm[3]:2K-16K=shared;"
            "all_gather@shm[3]:2K-128K=shared_by_owner");
}

TEST(Rules, KeepAContestWhereThereIsOne) {
  const auto ruled = [](const TunePoint& p) { return rules_of(std::span(&p, 1), "shm", 4); };
  EXPECT_EQ(ruled(contested({15, 15, 15, 15}, {6, 6, 6, 6})),
            "all_reduce@shm[4]:512K-2M=direct;all_reduce@shm[4]:512K-2M=single_copy");
  TunePoint fresh = contested({5, 5, 5, 5}, {6, 6, 6, 6});
  fresh.rival = std::nullopt;
  choose(fresh);
  ASSERT_EQ(fresh.chosen, 1u);
  EXPECT_EQ(ruled(fresh), "all_reduce@shm[4]:512K-2M=direct;all_reduce@shm[4]:512K-2M=single_copy")
      << "and begins one, against the best of the others";
}

TEST(Rules, AreATable) {
  const std::vector<TunePoint> points = {point(0, {kRing}), point(4096, {kRing})};
  const std::string text = rules_of(points, "hosts", 4);
  const auto selector = plan::Selector::parse("", text);
  ASSERT_TRUE(selector.ok()) << selector.status().message();
  plan::Question q;
  q.one_host = false;
  q.several_hosts = true;
  q.ranks = 4;
  q.bytes = 4096;
  EXPECT_EQ(selector->choose(q)->name, "ring");
  EXPECT_THAT(selector->explain(q).reason, ::testing::StartsWith("tuned rule all_reduce@hosts[4]"));
  q.ranks = 5;
  EXPECT_EQ(selector->choose(q)->name, "hierarchical");
}

TEST(Rules, ReplaceThoseOfTheirCollectiveAlone) {
  const std::vector<TunePoint> points = {point(4096, {kRing})};
  EXPECT_EQ(
      merge_rules("broadcast@shm[4]:0-8K=flat;all_reduce@shm[4]:0-8K=direct", points, "all_reduce@shm[4]:2K-8K=ring"),
      "broadcast@shm[4]:0-8K=flat;all_reduce@shm[4]:2K-8K=ring");
  EXPECT_EQ(merge_rules("", points, "x"), "x");
}

}  // namespace
}  // namespace unisono::cli

/// Constants as text, and what they make of plans: against closed forms that can be worked out by hand.

#include "plan/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "plan/select.h"

namespace unisono::plan {
namespace {

using ::testing::HasSubstr;

constexpr double kAlpha = 100e-6, kBeta = 10e-9;

/// Nothing costs anything but what a test sets.
CostModel only_latency() { return {{}, {kAlpha, 0, 0}, {}, 0}; }
CostModel only_bytes() { return {{}, {0, 0, kBeta}, {}, 0}; }

double seconds(const char* name, const CostModel& model, const std::vector<std::int32_t>& hosts, std::int64_t bytes,
               Collective c = Collective::all_reduce, std::int64_t slice = kUsualSlice) {
  const Algorithm* algorithm = find_algorithm(c, name);
  EXPECT_NE(algorithm, nullptr) << name;
  return Schedule(*algorithm, {static_cast<std::int32_t>(hosts.size()), 0, 0, hosts}).seconds(model, bytes, slice);
}

std::vector<std::int32_t> apart(std::int32_t n) {
  std::vector<std::int32_t> hosts;
  for (std::int32_t i = 0; i < n; i++) hosts.push_back(i);
  return hosts;
}

TEST(CostModel, TextComesBack) {
  CostModel model{{1.5e-6, 2e-7, 5e-11},
                  {27e-6, 3e-6, 8.15e-9},
                  {{{0, 1}, {26e-6, 3e-6, 8e-9}}, {{1, 12}, {1e-3, 0, 1e-7}}},
                  1e-10};
  const std::string text = to_text(model);
  EXPECT_EQ(text,
            "gamma=0.1ns/B; within=1.5us,0.2us,0.05ns/B; between=27us,3us,8.15ns/B; 0-1=26us,3us,8ns/B; "
            "1-12=1e+03us,0us,100ns/B");
  const auto parsed = parse_cost_model(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(to_text(*parsed), text);
  EXPECT_EQ(parsed->pairs.size(), 2u);
}

TEST(CostModel, SaysWhatItCannotRead) {
  for (const auto& [text, says] :
       std::vector<std::pair<std::string, std::string>>{{"gamma=0.1", "ns/B"},
                                                        {"within=1us,2us", "ns/B"},
                                                        {"within=1us,2,3ns/B", "number of us"},
                                                        {"between=-1us,0us,0ns/B", "number of us"},
                                                        {"beyond=1us,0us,0ns/B", "neither gamma"},
                                                        {"1-0=1us,0us,0ns/B", "neither gamma"},
                                                        {"x", "neither gamma"},
                                                        {"gamma=nanns/B", "ns/B"}}) {
    const auto parsed = parse_cost_model(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_THAT(parsed.status().message(), HasSubstr(says)) << text;
  }
  EXPECT_TRUE(parse_cost_model("").ok());
}

TEST(CostModel, FindsItsLinks) {
  CostModel model;
  model.within.alpha = 1, model.between.alpha = 2, model.pairs[{0, 2}].alpha = 3;
  EXPECT_EQ(model.link(1, 1).alpha, 1);
  EXPECT_EQ(model.link(0, 1).alpha, 2);
  EXPECT_EQ(model.link(2, 0).alpha, 3);
}

TEST(Schedule, CountsRoundsWhereLatencyIsAll) {
  for (const std::int32_t n : {2, 4, 8, 16}) {
    const double rounds = std::log2(n);
    EXPECT_NEAR(seconds("recursive_doubling", only_latency(), apart(n), 64), rounds * kAlpha, 1e-12);
    EXPECT_NEAR(seconds("binomial", only_latency(), apart(n), 64), (2 * rounds - 1) * kAlpha, 1e-12);
    EXPECT_NEAR(seconds("ring", only_latency(), apart(n), 64), 2 * (n - 1) * kAlpha, 1e-12);
  }
}

TEST(Schedule, CountsBytesWhereTheyAreAll) {
  const std::int64_t bytes = 1 << 20;
  const double once = static_cast<double>(bytes) * kBeta;
  EXPECT_NEAR(seconds("ring", only_bytes(), apart(4), bytes), 1.5 * once, 1e-9);
  EXPECT_NEAR(seconds("recursive_doubling", only_bytes(), apart(4), bytes, Collective::all_reduce, bytes), 2 * once,
              1e-9);
  EXPECT_NEAR(seconds("flat", only_bytes(), apart(4), bytes, Collective::broadcast, bytes), 3 * once, 1e-9);
}

TEST(Schedule, LinksServeWhoComesFirst) {
  // Everybody sends to everybody at once: all links are busy all the time, in and out.
  const std::int64_t bytes = 1 << 20;
  EXPECT_NEAR(seconds("pairwise", only_bytes(), apart(4), bytes, Collective::all_to_all, bytes),
              0.75 * static_cast<double>(bytes) * kBeta, 1e-9);
}

TEST(Schedule, SlicesOverlap) {
  // A chain of 8 carries one slice 7 links far, and then a slice behind the other.
  const std::int64_t bytes = 1 << 20, slice = 1 << 16;
  const double one = static_cast<double>(slice) * kBeta;
  EXPECT_NEAR(seconds("chain", only_bytes(), apart(8), bytes, Collective::broadcast, slice), (7 + 15) * one, 1e-9);
  EXPECT_NEAR(seconds("chain", only_bytes(), apart(8), bytes, Collective::broadcast, bytes), 7 * 16 * one, 1e-9);
}

TEST(Schedule, RanksOfAHostShareItsLink) {
  // Everybody exchanges its half with the rank of the other host: side by side when each has a link, in turn when two share one.
  const std::int64_t bytes = 1 << 16;
  const double once = static_cast<double>(bytes) * kBeta;
  const double shared = seconds("recursive_doubling", only_bytes(), {0, 0, 1, 1}, bytes);
  EXPECT_NEAR(shared, 2 * once, 1e-9);  // two messages over each link, none inside costs anything
  EXPECT_NEAR(seconds("hierarchical", only_bytes(), {0, 0, 1, 1}, bytes), once, 1e-9);
}

TEST(Schedule, AProcessorDoesOneThingAtATime) {
  const CostModel gaps{{}, {0, 1e-6, 0}, {}, 0};
  EXPECT_NEAR(seconds("flat", gaps, apart(8), 64, Collective::broadcast), 8e-6,
              1e-12);  // seven sends, the last one's receipt
  const CostModel sums{{}, {}, {}, 1e-9};
  EXPECT_NEAR(seconds("recursive_doubling", sums, apart(4), 1000, Collective::all_reduce), 2 * 1000 * 1e-9, 1e-12);
}

TEST(Expect, TakesAllThatCanRun) {
  const std::int64_t sizes[] = {64, 1 << 20};
  for (const auto& hosts : {apart(4), std::vector<std::int32_t>{0, 0, 1, 1}}) {
    const auto all = expect(only_bytes(), Collective::all_reduce, hosts, sizes, kUsualSlice);
    ASSERT_EQ(all.size(), 2u);
    std::vector<std::string> names;
    for (const Expectation& e : all[0]) names.emplace_back(e.algorithm->name);
    EXPECT_EQ(std::count(names.begin(), names.end(), "hierarchical"), hosts[1] == 0 ? 1 : 0);
    EXPECT_EQ(std::count(names.begin(), names.end(), "ring"), 1);
    EXPECT_EQ(std::count(names.begin(), names.end(), "staged_two_shot"), 0);
  }
}

TEST(RulesFrom, AreATableThatIsNeverClearlyWorseThanTheBest) {
  const std::vector<std::int64_t> sizes = expectation_sizes();
  for (const double alpha : {1e-6, 30e-6, 5e-3})
    for (const double beta : {1e-10, 8e-9, 1e-7})
      for (const auto& hosts : {apart(4), apart(7), {0, 0, 1, 1}, {0, 1, 0, 1, 2}}) {
        const CostModel model{{1e-6, 2e-7, 5e-11}, {alpha, alpha / 8, beta}, {}, 1e-10};
        const auto table = Selector::parse("", rules_from(model, hosts, kUsualSlice));
        ASSERT_TRUE(table.ok()) << table.status().message();
        Question q;
        q.one_host = false;
        q.several_hosts = hosts[1] == 0 || hosts[2] == 0;
        q.ranks = static_cast<std::int32_t>(hosts.size());
        for (int c = 0; c < kCollectives - 1; c++) {
          q.collective = static_cast<Collective>(c);
          const auto expected = expect(model, q.collective, hosts, sizes, kUsualSlice);
          for (std::size_t i = 0; i < sizes.size(); i++) {
            q.bytes = sizes[i];
            double best = 1e9, own = 0;
            for (const Expectation& e : expected[i]) {
              best = std::min(best, e.seconds);
              if (e.algorithm == table->choose(q)) own = e.seconds;
            }
            EXPECT_LE(own, best * kClearlyExpected * 1.0001) << name_of(q.collective) << " " << sizes[i];
            EXPECT_GT(own, 0);
          }
        }
      }
}

TEST(RulesFrom, LargeGroupsKeepTheBuiltInTable) {
  EXPECT_EQ(rules_from(only_latency(), apart(kMostRanksToExpect + 1), kUsualSlice), "");
}

}  // namespace
}  // namespace unisono::plan

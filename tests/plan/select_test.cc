/// Which algorithm runs, and what is said about mistakes in the table.

#include "plan/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace unisono::plan {
namespace {

using testing::HasSubstr;

Selector table(std::string_view overrides = "") {
  auto selector = Selector::parse(overrides);
  EXPECT_TRUE(selector.ok()) << selector.status().message();
  return std::move(selector).value();
}

std::string error_of(std::string_view overrides) {
  const auto selector = Selector::parse(overrides);
  EXPECT_FALSE(selector.ok());
  return selector.ok() ? "" : selector.status().message();
}

Question question(Collective collective, std::int32_t ranks, std::int64_t bytes, bool one_host = true,
                  bool even = true) {
  return {collective, one_host, ranks, bytes, even};
}

TEST(Selector, OneShotForSmallVectorsInSharedMemoryAndLessOfItForMoreRanks) {
  const Selector s = table();
  EXPECT_EQ(s.choose(question(Collective::all_reduce, 2, 24 * 1024 - 1))->name, "staged_return");
  EXPECT_EQ(s.choose(question(Collective::all_reduce, 2, 24 * 1024))->name, "staged_one_shot");
  EXPECT_EQ(s.choose(question(Collective::all_reduce, 3, 32 * 1024 - 1))->name, "staged_one_shot");
  EXPECT_EQ(s.choose(question(Collective::all_reduce, 16, 6 * 1024 - 1))->name, "staged_one_shot");
  EXPECT_EQ(s.choose(question(Collective::all_reduce, 16, 6 * 1024))->name, "staged_two_shot");
}

TEST(Selector, SharedBuffersAreUsedWhereTheyAre) {
  const Selector s = table();
  for (const Collective c : {Collective::all_reduce, Collective::gather, Collective::all_to_all}) {
    Question q = question(c, 4, 1 << 20);
    EXPECT_EQ(s.choose(q)->place, Place::shared_memory);
    EXPECT_THAT(s.explain(q).reason,
                HasSubstr("it needs shared buffers (Group::allocate, registered, or large and used a few times)"));
    q.shared_buffers = true;
    EXPECT_EQ(s.choose(q)->name, "shared");
    q.bytes = 100;
    EXPECT_EQ(s.choose(q)->place, Place::shared_memory);
    q = question(c, 4, 1 << 20, false);
    q.shared_buffers = true;
    EXPECT_EQ(s.choose(q)->place, Place::network);
  }
}

TEST(Selector, AnAllGatherIsByOwnersOnlyWhereAllOutputsAreShared) {
  const Selector s = table();
  Question q = question(Collective::all_gather, 4, 64 << 20);
  q.shared_outputs = true;
  EXPECT_EQ(s.choose(q)->place, Place::shared_memory) << "of other memory";
  q.shared_buffers = true;
  EXPECT_EQ(s.choose(q)->name, "shared_by_owner");
  q.shared_outputs = false;
  EXPECT_EQ(s.choose(q)->name, "shared");
  EXPECT_THAT(s.explain(q).reason, HasSubstr("it needs the outputs of all ranks in shared buffers"));
  q.shared_outputs = true;
  q.bytes = 256 << 10;
  EXPECT_EQ(s.choose(q)->name, "shared") << "of little nothing is gained";
  q.bytes = 1 << 20;
  EXPECT_EQ(s.choose(q)->name, "shared_by_owner");
  q.ranks = 12;
  EXPECT_EQ(s.choose(q)->name, "shared_by_owner");
  q.bytes = 64 << 20;
  q.ranks = 2;
  EXPECT_EQ(s.choose(q)->name, "shared_by_owner") << "its own output is another place than its input";
}

TEST(Selector, FromFewMessagesToFewBytesOverANetwork) {
  const Selector s = table();
  EXPECT_EQ(s.choose(question(Collective::all_reduce, 2, 256 << 10, false))->name, "recursive_doubling");
  EXPECT_EQ(s.choose(question(Collective::all_reduce, 2, 1 << 20, false))->name, "ring");
  EXPECT_EQ(s.choose(question(Collective::all_reduce, 4, 8, false))->name, "recursive_doubling");
  EXPECT_EQ(s.choose(question(Collective::all_reduce, 4, 100'000, false))->name, "circulant");
  EXPECT_EQ(s.choose(question(Collective::all_reduce, 4, std::int64_t{1} << 40, false))->name, "ring");
}

TEST(Selector, AnswersEveryQuestionWithWhatCanRun) {
  const Selector s = table();
  for (int c = 0; c < kCollectives; c++) {
    for (const bool one_host : {false, true}) {
      for (const bool even : {false, true}) {
        for (const std::int32_t ranks : {1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 1000, 1 << 30}) {
          for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{8}, std::int64_t{5000}, std::int64_t{70'000},
                                           std::int64_t{1} << 30, std::numeric_limits<std::int64_t>::max()}) {
            const Question q = question(static_cast<Collective>(c), ranks, bytes, one_host, even);
            const Algorithm* chosen = s.choose(q);
            ASSERT_NE(chosen, nullptr) << name_of(q.collective) << " " << ranks << " " << bytes;
            EXPECT_EQ(chosen->collective, q.collective);
            EXPECT_TRUE(one_host || chosen->place == Place::network);
            EXPECT_TRUE(even || !chosen->even_only());
            EXPECT_EQ(s.explain(q).algorithm, chosen);
          }
        }
      }
    }
  }
}

TEST(Selector, ALaterRuleWins) {
  const Selector s = table("all_reduce:0-1M=ring,0-8K=recursive_doubling; all_reduce@net:4K-8K=circulant");
  EXPECT_EQ(s.choose(question(Collective::all_reduce, 4, 100))->name, "recursive_doubling");
  EXPECT_EQ(s.choose(question(Collective::all_reduce, 4, 5000))->name, "recursive_doubling");
  EXPECT_EQ(s.choose(question(Collective::all_reduce, 4, 5000, false))->name, "circulant");
  EXPECT_EQ(s.choose(question(Collective::all_reduce, 4, 10'000))->name, "ring");
  EXPECT_EQ(s.choose(question(Collective::all_reduce, 4, 1 << 20))->name, "staged_return");
}

TEST(Selector, RangesOfRanks) {
  const Selector s = table("all_reduce[3-4]:0-=binomial;all_reduce[6-]:0-=circulant;all_reduce@shm[5]:0-=ring");
  EXPECT_EQ(s.choose(question(Collective::all_reduce, 2, 1 << 20))->name, "staged_return");
  EXPECT_EQ(s.choose(question(Collective::all_reduce, 3, 1 << 20))->name, "binomial");
  EXPECT_EQ(s.choose(question(Collective::all_reduce, 4, 1 << 20))->name, "binomial");
  EXPECT_EQ(s.choose(question(Collective::all_reduce, 5, 1 << 20))->name, "ring");
  EXPECT_EQ(s.choose(question(Collective::all_reduce, 1000, 1 << 20))->name, "circulant");
}

TEST(Selector, PassesOverWhatCannotRunAndSaysWhy) {
  const Selector s = table("all_reduce:0-=staged_two_shot;all_to_all:0-=bruck");
  const Choice network = s.explain(question(Collective::all_reduce, 4, 8 << 20, false));
  EXPECT_EQ(network.algorithm->name, "ring");
  EXPECT_EQ(network.reason,
            "built-in rule all_reduce@net[3-4]:4M-=ring; passed over override all_reduce:0-=staged_two_shot: it "
            "needs shared "
            "memory, and not all ranks are on one host");
  const Choice uneven = s.explain(question(Collective::all_to_all, 4, 1000, false, false));
  EXPECT_EQ(uneven.algorithm->name, "pairwise");
  EXPECT_THAT(uneven.reason, HasSubstr("it needs equal counts, and they differ"));
  EXPECT_EQ(s.choose(question(Collective::all_to_all, 4, 1000, true, true))->name, "bruck");
}

TEST(Selector, TextOfATableIsATable) {
  const std::string overrides = "all_reduce:0-8K=binomial,1G-=ring;broadcast@net[2-]:0-=flat";
  const Selector first = table(overrides);
  EXPECT_THAT(first.text(), testing::EndsWith(";" + overrides));
  EXPECT_EQ(table(first.text()).text(), first.text());
  EXPECT_EQ(table(table().text()).text(), table().text());
}

TEST(Selector, RulesPrintAsTheyAreWritten) {
  const Selector s = table("all_reduce@shm[3-4]:0-8K=binomial;reduce:5-=binomial;gather[7]:0-1=linear");
  std::string joined;
  for (const Rule& rule : s.rules()) {
    if (rule.origin != Origin::built_in) joined += to_text(rule) + ";";
  }
  EXPECT_EQ(joined, "all_reduce@shm[3-4]:0-8K=binomial;reduce:5-=binomial;gather[7]:0-1=linear;");
}

TEST(SelectorErrors, ShowThePlace) {
  const std::string error = error_of("broadcast:0-=flat;all_reduce:0-8K=rign");
  EXPECT_THAT(error,
              testing::StartsWith("algorithm table: no algorithm \"rign\" for all_reduce: there are binomial, "));
  EXPECT_THAT(error, testing::EndsWith("\n"
                                       "  broadcast:0-=flat;all_reduce:0-8K=rign\n"
                                       "                                    ^~~~"));
}

TEST(SelectorErrors, SayWhatIsWrong) {
  EXPECT_THAT(error_of("allreduce:0-=ring"), HasSubstr("no collective \"allreduce\": there are all_reduce, reduce"));
  EXPECT_THAT(error_of("all_reduce@gpu:0-=ring"), HasSubstr("no place \"gpu\": there are shm, net, hosts and nodes"));
  EXPECT_THAT(error_of("all_reduce"), HasSubstr("a rule is collective:from-to=algorithm"));
  EXPECT_THAT(error_of("all_reduce:ring"), HasSubstr("\"ring\" is not from-to=algorithm"));
  EXPECT_THAT(error_of("all_reduce:8K-4K=ring"), HasSubstr("the range 8K-4K is empty"));
  EXPECT_THAT(error_of("all_reduce:4K-4K=ring"), HasSubstr("is empty"));
  EXPECT_THAT(error_of("all_reduce:0-8Q=ring"), HasSubstr("\"8Q\" is not a size"));
  EXPECT_THAT(error_of("all_reduce:0-=ring,"), HasSubstr("is not from-to=algorithm"));
  EXPECT_THAT(error_of("all_reduce[4-3]:0-=ring"), HasSubstr("the range of ranks \"4-3\" is empty"));
  EXPECT_THAT(error_of("all_reduce[0-3]:0-=ring"), HasSubstr("\"0-3\" is not a range of ranks"));
  EXPECT_THAT(error_of("all_reduce[x]:0-=ring"), HasSubstr("\"x\" is not a range of ranks"));
  EXPECT_THAT(error_of("all_reduce[2:0-=ring"), HasSubstr("not closed with \"]\""));
  EXPECT_THAT(error_of("all_reduce@net:0-=staged_two_shot"), HasSubstr("can never run under a rule for net"));
}

// Any text is a table or an error that marks a place inside it; nothing else happens.
TEST(SelectorErrors, SurviveRandomText) {
  std::mt19937 random(7);
  const std::vector<std::string> words = {"all_reduce",
                                          "barrier",
                                          "@",
                                          "shm",
                                          "net",
                                          "[",
                                          "]",
                                          "2",
                                          "-",
                                          ":",
                                          "0",
                                          "64K",
                                          "=",
                                          "ring",
                                          "staged",
                                          ",",
                                          ";",
                                          " ",
                                          "9999999999999999999G",
                                          "\n"};
  int good = 0;
  for (int i = 0; i < 20'000; i++) {
    std::string text;
    for (auto n = random() % 12; n > 0; n--) text += words[random() % words.size()];
    const auto selector = Selector::parse(text);
    if (selector.ok()) {
      good++;
      EXPECT_TRUE(Selector::parse(selector->text()).ok());
    } else {
      EXPECT_THAT(selector.status().message(), HasSubstr("^"));
    }
  }
  EXPECT_GT(good, 0);
}

TEST(Sizes, AreParsed) {
  EXPECT_EQ(*parse_size("0"), 0);
  EXPECT_EQ(*parse_size("4096"), 4096);
  EXPECT_EQ(*parse_size("64K"), 65536);
  EXPECT_EQ(*parse_size("64k"), 65536);
  EXPECT_EQ(*parse_size("3M"), 3 * 1024 * 1024);
  EXPECT_EQ(*parse_size("2GiB"), std::int64_t{2} << 30);
  EXPECT_EQ(*parse_size("7B"), 7);
}

TEST(Sizes, AreRefused) {
  for (const char* text :
       {"", "K", "-1", "1.5M", "64Q", "64KK", "8 K", "99999999999999999999", "9999999999G", "0x10"}) {
    EXPECT_FALSE(parse_size(text).ok()) << text;
  }
  EXPECT_EQ(parse_size("9999999999G").status().message(),
            "\"9999999999G\" is not a size (too large): write bytes as 4096, 64K, 1M or 2G");
}

TEST(Sizes, AreFormattedWithoutLoss) {
  EXPECT_EQ(format_size(0), "0");
  EXPECT_EQ(format_size(1000), "1000");
  EXPECT_EQ(format_size(65536), "64K");
  EXPECT_EQ(format_size(std::int64_t{5} << 30), "5G");
  for (const std::int64_t bytes : {1LL, 1023LL, 1024LL, 1025LL, 1LL << 20, (1LL << 30) + 1024}) {
    EXPECT_EQ(*parse_size(format_size(bytes)), bytes);
  }
}

TEST(Select, LargeSumsOf16BitsAreAddedInOneStep) {
  const Selector table = *Selector::parse("");
  for (const Collective c : {Collective::all_reduce, Collective::reduce, Collective::reduce_scatter})
    for (const std::int32_t ranks : {2, 3, 8, 33})
      for (const std::int64_t bytes : {1 << 10, 64 << 10, 64 << 20})
        for (const bool hosts : {false, true}) {
          Question q{.collective = c, .one_host = false, .ranks = ranks, .bytes = bytes, .rounds = true};
          q.several_hosts = hosts && ranks > 2;
          const Algorithm* chosen = table.choose(q);
          EXPECT_EQ(chosen, table.explain(q).algorithm);
          if (ranks > 2 && ranks < 33 && bytes >= 64 << 10 && !hosts) {
            EXPECT_EQ(chosen->name, "direct") << name_of(c) << ranks;
          }
          q.rounds = false;
          if (bytes > 1 << 20) {
            EXPECT_NE(table.choose(q)->name, "direct");
          }
        }
  const Selector ring = *Selector::parse("all_reduce:0-=ring");
  EXPECT_EQ(ring.choose({.one_host = false, .ranks = 4, .bytes = 1 << 20, .rounds = true})->name, "ring");
}

TEST(Select, NoAlgorithmInSharedMemoryRoundsPartialSums) {
  const Selector nodes = *Selector::parse("all_reduce:0-=staged_nodes;reduce_scatter:0-=staged_nodes");
  for (const Collective c : {Collective::all_reduce, Collective::reduce_scatter}) {
    const Question q{.collective = c, .ranks = 16, .bytes = 1 << 20, .rounds = true, .several_nodes = true};
    EXPECT_NE(nodes.choose(q)->name, "staged_nodes");
  }
}

}  // namespace
}  // namespace unisono::plan

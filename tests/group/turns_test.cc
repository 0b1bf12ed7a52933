/// The rules of ranks that are all on one host, of which some take turns on its cores, beside the built-in table.

#include <gtest/gtest.h>

#include <string_view>
#include <tuple>

#include "group/tuned.h"
#include "plan/registry.h"
#include "plan/select.h"

namespace unisono::detail {
namespace {

plan::Selector selector(std::size_t ranks, std::size_t processors, std::size_t second_cache = 512 << 10) {
  Tuned tuned;
  add_rules_of_one_host(tuned, Config{}, ranks, processors, second_cache);
  auto parsed = plan::Selector::parse("", tuned.rules);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  return std::move(parsed).value();
}

plan::Question question(Collective collective, int ranks, std::int64_t bytes) {
  plan::Question q;
  q.collective = collective;
  q.ranks = ranks;
  q.bytes = bytes;
  return q;
}

/// A rule for private buffers comes behind all built-in ones, so behind those for shared buffers, too, which have to be said again.
TEST(RulesOfTurns, LargeSharedBuffersAreUsedWhereTheyLie) {
  for (const Collective collective :
       {Collective::all_reduce, Collective::reduce, Collective::broadcast, Collective::all_gather,
        Collective::reduce_scatter, Collective::gather, Collective::scatter, Collective::all_to_all})
    for (int ranks = 3; ranks <= 16; ranks++)
      for (std::int64_t bytes = 512 << 10; bytes <= 64 << 20; bytes *= 2) {
        plan::Question q = question(collective, ranks, bytes);
        q.shared_buffers = true;
        for (const std::size_t second_cache : {512 << 10, 2 << 20}) {
          const plan::Algorithm* chosen = selector(static_cast<std::size_t>(ranks), 2, second_cache).choose(q);
          EXPECT_EQ(chosen->name, "shared") << name_of(collective) << " of " << ranks << " ranks, " << bytes;
        }
      }
}

TEST(RulesOfTurns, SumsGoBackAmongFewerRanks) {
  for (const std::int64_t bytes : {64 << 10, 1 << 20, 16 << 20}) {
    for (const int ranks : {2, 3, 4, 6, 8, 12})
      EXPECT_EQ(selector(12, 12).choose(question(Collective::all_reduce, ranks, bytes))->name, "staged_return")
          << ranks;
    for (const auto& [ranks, name] :
         {std::pair(4, "staged_return"), {6, "staged_return"}, {8, "staged_two_shot"}, {12, "staged_two_shot"}})
      EXPECT_EQ(selector(16, 2).choose(question(Collective::all_reduce, ranks, bytes))->name, name) << ranks;
  }
  plan::Question q = question(Collective::all_reduce, 8, 1 << 20);
  q.peer_memory = true;
  EXPECT_EQ(selector(8, 2).choose(q)->name, "single_copy") << "the contest stays";
  q = question(Collective::all_reduce, 16, 16 << 20);
  EXPECT_EQ(selector(16, 16).choose(q)->name, "staged_return");
  EXPECT_EQ(selector(16, 2).choose(q)->name, "staged_two_shot");
  q.several_nodes = true;
  EXPECT_EQ(selector(16, 2).choose(q)->name, "staged_nodes");
}

/// One wait less is worth more than the additions, until they are many.
TEST(RulesOfTurns, SumsOfFewKiBAreMadeInOneShot) {
  for (const auto& [ranks, kib, name] : {std::tuple(2, 12, "staged_one_shot"),
                                         {2, 16, "staged_return"},
                                         {3, 2, "staged_one_shot"},
                                         {3, 4, "staged_one_shot"},
                                         {3, 12, "staged_one_shot"},
                                         {3, 24, "staged_one_shot"},
                                         {4, 8, "staged_one_shot"},
                                         {3, 32, "staged_return"},
                                         {4, 24, "staged_one_shot"},
                                         {4, 32, "staged_return"},
                                         {6, 16, "staged_one_shot"},
                                         {8, 24, "staged_one_shot"},
                                         {9, 24, "staged_one_shot"}}) {
    plan::Question q = question(Collective::all_reduce, ranks, kib << 10);
    EXPECT_EQ(selector(static_cast<std::size_t>(ranks), 2).choose(q)->name, name) << ranks << " ranks, " << kib;
    q.shared_buffers = true;
    if (ranks > 4) continue;
    const bool early = ranks > 2 && kib < 12;
    EXPECT_EQ(selector(static_cast<std::size_t>(ranks), 2).choose(q)->name, early ? "staged_one_shot" : "shared")
        << kib;
  }
}

/// With a core for each rank shared buffers win from 2 to 16 KiB on; where ranks take turns, only much later.
TEST(RulesOfTurns, SmallSharedBuffersAreUsedWhereRanksHaveCoresOfTheirOwn) {
  const std::tuple<Collective, int, std::int64_t, std::string_view> cases[] = {
      {Collective::all_reduce, 4, 4 << 10, "staged_one_shot"},
      {Collective::all_reduce, 8, 16 << 10, "staged_one_shot"},
      {Collective::all_reduce, 16, 16 << 10, "staged_one_shot"},
      {Collective::reduce, 4, 16 << 10, "staged_one_shot"},
      {Collective::reduce, 8, 64 << 10, "staged_one_shot"},
      {Collective::reduce, 16, 8 << 10, "staged"},
      {Collective::broadcast, 4, 64 << 10, "staged"},
      {Collective::broadcast, 16, 128 << 10, "staged"},
      {Collective::all_gather, 8, 32 << 10, "staged"},
      {Collective::reduce_scatter, 8, 32 << 10, "staged"},
      {Collective::gather, 3, 32 << 10, "staged"},
      {Collective::gather, 8, 128 << 10, "linear"},
      {Collective::scatter, 4, 32 << 10, "staged"},
      {Collective::all_to_all, 8, 8 << 10, "staged"},
  };
  for (const auto& [collective, ranks, bytes, in_turns] : cases) {
    plan::Question q = question(collective, ranks, bytes);
    q.shared_buffers = true;
    EXPECT_EQ(selector(16, 16).choose(q)->name, "shared")
        << name_of(collective) << ", " << ranks << " ranks, " << bytes;
    EXPECT_EQ(selector(16, 2).choose(q)->name, in_turns) << name_of(collective) << ", " << ranks << " ranks, " << bytes;
  }
}

TEST(RulesOfTurns, SharedBuffersAreUsedEarlierWhereCachesAreLarge) {
  constexpr std::size_t kLarge = 1 << 20, kLarger = 2 << 20;
  const std::tuple<Collective, int, std::int64_t, std::string_view, std::size_t> cases[] = {
      {Collective::all_reduce, 6, 16 << 10, "staged_one_shot", kLarge},
      {Collective::reduce, 8, 32 << 10, "staged_one_shot", kLarge},
      {Collective::reduce, 4, 16 << 10, "staged_one_shot", kLarger},
      {Collective::broadcast, 4, 64 << 10, "staged", kLarge},
      {Collective::broadcast, 4, 16 << 10, "staged", kLarger},
      {Collective::all_gather, 8, 56 << 10, "staged", kLarger},
      {Collective::reduce_scatter, 8, 32 << 10, "staged", kLarge},
      {Collective::gather, 3, 32 << 10, "staged", kLarge},
      {Collective::gather, 4, 64 << 10, "linear", kLarge},
      {Collective::gather, 8, 256 << 10, "linear", kLarge},
      {Collective::scatter, 4, 32 << 10, "staged", kLarge},
      {Collective::all_to_all, 6, 14 << 10, "staged", kLarger},
      {Collective::reduce_scatter, 4, 16 << 10, "staged", kLarger},
      {Collective::all_to_all, 4, 16 << 10, "staged", kLarger},
  };
  for (const auto& [collective, ranks, bytes, elsewhere, from] : cases) {
    plan::Question q = question(collective, ranks, bytes);
    const auto n = static_cast<std::size_t>(ranks);
    for (const std::size_t second_cache : {std::size_t{512} << 10, kLarge, kLarger}) {
      q.bytes = bytes;
      q.shared_buffers = false;
      const plan::Selector here = selector(n, 2, second_cache);
      EXPECT_NE(here.choose(q)->name, "shared") << name_of(collective);
      q.shared_buffers = true;
      const std::string_view chosen = here.choose(q)->name;
      if (second_cache >= from)
        EXPECT_EQ(chosen, "shared") << name_of(collective) << ", " << ranks << ", " << second_cache;
      else if (second_cache < kLarge)
        EXPECT_EQ(chosen, elsewhere) << name_of(collective);
      else
        EXPECT_NE(chosen, "shared") << name_of(collective) << ", " << ranks << ", " << second_cache;
      q.bytes = 2 << 10;
      EXPECT_NE(here.choose(q)->name, "shared") << name_of(collective);
    }
  }
}

/// Where shared buffers may be used, private ones are not to pay for that: they do in plans of messages.
TEST(RulesOfTurns, GathersWhoseBuffersMayBeSharedAreStaged) {
  for (int ranks = 3; ranks <= 8; ranks++)
    for (const std::int64_t kib : {2, 8, 24, 64, 256, 1024}) {
      const plan::Selector here = selector(static_cast<std::size_t>(ranks), 2, 1 << 20);
      EXPECT_EQ(here.choose(question(Collective::gather, ranks, kib << 10))->name, "staged") << ranks << ", " << kib;
    }
}

TEST(RulesOfTurns, AScatterOfManyRanksHasAContestOnlyWhereTheKernelMayWin) {
  for (const int ranks : {5, 8, 16}) {
    plan::Question q = question(Collective::scatter, ranks, 1 << 20);
    q.peer_memory = true;
    EXPECT_EQ(selector(16, 2).choose(q)->name, "staged") << ranks;
    EXPECT_EQ(selector(16, 16).choose(q)->name, "single_copy") << ranks << ": a core each";
    q.bytes = 4 << 20;
    EXPECT_EQ(selector(16, 2).choose(q)->name, "single_copy") << ranks;
  }
}

TEST(RulesOfTurns, PairsOfAnAllToAllReadForEachOther) {
  for (int ranks = 2; ranks <= 16; ranks++)
    for (const std::int64_t kib : {32, 48, 64, 127, 128}) {
      plan::Question q = question(Collective::all_to_all, ranks, kib << 10);
      q.peer_memory = true;
      const bool pairs = ranks >= 3 && ranks <= 8 && kib >= 48 && kib < 128;
      EXPECT_EQ(selector(static_cast<std::size_t>(ranks), 2).choose(q)->name == "single_copy_pairs", pairs)
          << ranks << " ranks, " << kib << " KiB";
      EXPECT_NE(selector(16, 16).choose(q)->name, "single_copy_pairs") << "a core each";
    }
}

TEST(RulesOfTurns, TreesOverSocketsWhereFewMessagesCount) {
  const std::tuple<Collective, int, std::int64_t, std::string_view, std::string_view> cases[] = {
      {Collective::broadcast, 3, 64 << 10, "binomial", "flat"},
      {Collective::broadcast, 4, 128 << 10, "binomial", "binomial"},
      {Collective::broadcast, 4, 512 << 10, "binomial", "scatter_all_gather"},
      {Collective::broadcast, 8, 16 << 10, "flat", "binomial"},
      {Collective::broadcast, 8, 512 << 10, "binomial", "scatter_all_gather"},
      {Collective::reduce, 3, 16 << 20, "binomial", "reduce_scatter_gather"},
      {Collective::reduce, 8, 128 << 10, "binomial", "reduce_scatter_gather"},
      {Collective::all_gather, 3, 8 << 10, "ring", "direct"},
      {Collective::all_gather, 4, 8 << 10, "circulant", "circulant"},
      {Collective::all_gather, 6, 8 << 10, "ring", "circulant"},
      {Collective::all_gather, 7, 8 << 10, "circulant", "circulant"},
      {Collective::all_gather, 8, 256 << 10, "ring", "circulant"},
      {Collective::reduce_scatter, 3, 64 << 10, "ring", "direct"},
      {Collective::reduce_scatter, 8, 256 << 10, "ring", "circulant"},
      {Collective::scatter, 3, 64 << 10, "binomial", "linear"},
      {Collective::all_to_all, 8, 64 << 10, "bruck", "bruck"},
      {Collective::all_to_all, 8, 256 << 10, "pairwise", "pairwise"},
      {Collective::all_to_all, 32, 512 << 10, "bruck", "pairwise"},
  };
  for (const auto& [collective, ranks, bytes, in_turns, with_cores] : cases) {
    plan::Question q = question(collective, ranks, bytes);
    q.one_host = false;  // they share no memory
    EXPECT_EQ(selector(16, 2).choose(q)->name, in_turns) << name_of(collective) << ", " << ranks << ", " << bytes;
    EXPECT_EQ(selector(16, 16).choose(q)->name, with_cores) << name_of(collective) << ", " << ranks << ", " << bytes;
  }
}

TEST(RulesOfLoopback, AreNotForLinksBetweenHosts) {
  plan::Question q = question(Collective::broadcast, 4, 64 << 10);
  q.one_host = false;
  EXPECT_EQ(selector(4, 4).choose(q)->name, "binomial");
  EXPECT_EQ(selector(4, 0).choose(q)->name, "scatter_all_gather") << "0: on several hosts";
  Config config;
  config.deterministic = true;
  Tuned tuned;
  add_rules_of_one_host(tuned, config, 4, 4, 2 << 20);
  EXPECT_EQ(tuned.rules, "");
}

TEST(RulesOfTurns, ARingWhereTheBlocksOfTwoRanksStayInACache) {
  plan::Question q = question(Collective::all_reduce, 4, 1 << 20);
  q.one_host = false;
  EXPECT_EQ(selector(4, 2, 512 << 10).choose(q)->name, "binomial");
  EXPECT_EQ(selector(4, 2, 2 << 20).choose(q)->name, "ring");
  q.ranks = 8, q.bytes = 16 << 20;
  EXPECT_EQ(selector(8, 2, 512 << 10).choose(q)->name, "ring");
  EXPECT_EQ(selector(8, 2, 2 << 20).choose(q)->name, "binomial");
}

TEST(RulesOfTurns, StagesOrAContestInsteadOfMessagesWhereCachesAreLarge) {
  plan::Question gather = question(Collective::gather, 4, 512 << 10),
                 scatter = question(Collective::scatter, 4, 512 << 10);
  const auto chooses = [](const plan::Question& q, std::size_t second_cache) {
    return selector(4, 2, second_cache).choose(q)->name;
  };
  for (plan::Question* q : {&gather, &scatter}) {
    EXPECT_EQ(chooses(*q, 512 << 10), "linear");
    EXPECT_EQ(chooses(*q, 2 << 20), "staged");
    q->peer_memory = true;
  }
  EXPECT_EQ(chooses(gather, 2 << 20), "single_copy");  // a contest, then
  EXPECT_EQ(chooses(scatter, 2 << 20), "single_copy");
  plan::Question shorter = gather;
  shorter.bytes = 256 << 10;
  EXPECT_EQ(chooses(shorter, 2 << 20), "staged");
  for (plan::Question* q : {&gather, &scatter}) {
    q->shared_buffers = q->shared_outputs = true;
    EXPECT_EQ(chooses(*q, 512 << 10), "shared");
    EXPECT_EQ(chooses(*q, 2 << 20), "shared");
  }
}

}  // namespace
}  // namespace unisono::detail

/// The rules of ranks that take turns on the cores, beside the built-in table.

#include <gtest/gtest.h>

#include "group/tuned.h"
#include "plan/registry.h"
#include "plan/select.h"

namespace unisono::detail {
namespace {

plan::Selector selector(std::size_t ranks, std::size_t processors) {
  Tuned tuned;
  add_rules_of_turns(tuned, Config{}, ranks, processors);
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
        const plan::Algorithm* chosen = selector(static_cast<std::size_t>(ranks), 2).choose(q);
        EXPECT_EQ(chosen->name, "shared") << name_of(collective) << " of " << ranks << " ranks, " << bytes;
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

}  // namespace
}  // namespace unisono::detail

#include "engine/actions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/binding.h"
#include "plan/registry.h"

namespace unisono::engine {
namespace {

using plan::OpCode;
using plan::Space;

Bound bound_of(const plan::Algorithm& a, int ranks, int rank, const Sizes& sizes) {
  return bound(std::make_shared<const Compiled>(compile(a.build({ranks, rank, 0}))), sizes, DType::f32);
}

bool runs_there(const plan::Algorithm& a, const Sizes& sizes) {
  const bool counted = a.collective == Collective::all_gather || a.collective == Collective::gather ||
                       a.collective == Collective::reduce_scatter || a.collective == Collective::scatter;
  return plan::needs_one_host(a.place) && a.place != plan::Place::several_nodes &&
         (sizes.counts.empty() || (counted && !a.even_only()));
}

/// All algorithms over memory; `check` sees the Bound of every rank.
template <class Check>
void for_all(const Sizes& sizes, int ranks, Check&& check) {
  for (const plan::Algorithm& a : plan::algorithms())
    for (int r = 0; r < ranks && runs_there(a, sizes); r++) check(a, bound_of(a, ranks, r, sizes));
}

TEST(Actions, AreTheStepsOfPlansOverMemory) {
  for (const int ranks : {2, 3, 5})
    for_all({30, {}, {}}, ranks, [&](const plan::Algorithm& a, const Bound& bound) {
      ASSERT_TRUE(bound.uncut) << name_of(a.collective) << " " << a.name;
      std::vector<std::uint32_t> waits, expected;
      for (const Action& action : bound.actions.list)
        if (action.op == OpCode::wait || action.op == OpCode::signal) {
          waits.push_back(action.step);
          EXPECT_EQ(action.bytes, 0u);
        }
      const auto& steps = bound.plan().steps;
      for (std::uint32_t i = 0; i < steps.size(); i++)
        if (steps[i].op == OpCode::wait || steps[i].op == OpCode::signal) expected.push_back(i);
      EXPECT_EQ(waits, expected) << name_of(a.collective) << " " << a.name;
      EXPECT_TRUE(std::ranges::is_sorted(bound.actions.list, {}, &Action::step));
    });
}

TEST(Actions, LieWithinTheBuffers) {
  const std::vector<std::int64_t> uneven{7, 0, 900};
  for (const Sizes& sizes : {Sizes{900, {}, {}}, Sizes{0, uneven, {}}})
    for_all(sizes, 3, [&](const plan::Algorithm& a, const Bound& bound) {
      for (const Action& action : bound.actions.list) {
        if (action.bytes == 0) continue;
        const plan::Step& step = bound.plan().steps[action.step];
        const bool copies = plan::copies(step.op);
        const std::size_t targets = copies ? action.targets : step.dst_count;
        const auto operands = bound.actions.of(action, targets + step.src_count);
        for (std::size_t k = 0; k < operands.size(); k++) {
          const Address& at = operands[k];
          const std::size_t bytes = copies && k == targets ? targets * action.bytes : action.bytes;
          const auto end = at.offset + static_cast<std::int64_t>(bytes);
          const bool fits = at.space == Space::in    ? end <= bound.binding.in.total()
                            : at.space == Space::out ? end <= bound.binding.out.total()
                                                     : at.space != Space::stage || at.offset % 64 == 0;
          EXPECT_TRUE(fits) << name_of(a.collective) << " " << a.name << ": " << action.bytes << " bytes at "
                            << at.offset;
          EXPECT_GE(at.offset, 0);
          EXPECT_EQ(at.rank >= 0, plan::has_owner(at.space));
        }
      }
    });
}

TEST(Actions, NothingIsDoneForEmptyBlocks) {
  for_all({0, {}, {}}, 3, [&](const plan::Algorithm& a, const Bound& bound) {
    for (const Action& action : bound.actions.list)
      EXPECT_TRUE(action.op == OpCode::wait || action.op == OpCode::signal) << a.name;
    EXPECT_TRUE(bound.actions.operands.empty());
  });
}

TEST(Actions, AreForShortBlocksAndMemoryAlone) {
  const plan::Algorithm& staged = *plan::find_algorithm(Collective::all_gather, "staged");
  EXPECT_TRUE(bound_of(staged, 2, 0, {kUncut / 4, {}, {}}).uncut);
  const Bound longer = bound_of(staged, 2, 0, {kUncut / 4 + 1, {}, {}});
  EXPECT_FALSE(longer.uncut);
  EXPECT_TRUE(longer.actions.list.empty());
  EXPECT_FALSE(bound_of(*plan::find_algorithm(Collective::all_gather, "ring"), 2, 0, {1, {}, {}}).uncut);
}

/// The second of three ranks: it puts its block on its stage, and takes those of the others, the next rank's first.
TEST(Actions, OfAStagedAllGather) {
  const Bound bound = bound_of(*plan::find_algorithm(Collective::all_gather, "staged"), 3, 1, {10, {}, {}});
  std::vector<Address> from_stages;
  for (const Action& action : bound.actions.list)
    if (action.op == OpCode::get) {
      EXPECT_EQ(action.bytes, 40u);
      from_stages.push_back(bound.actions.of(action, 2)[1]);
      EXPECT_EQ(bound.actions.of(action, 2)[0], (Address{Space::out, -1, from_stages.back().rank * 40}));
    }
  EXPECT_EQ(from_stages.size(), 2u);
  EXPECT_TRUE(
      std::ranges::all_of(from_stages, [](const Address& a) { return a.space == Space::stage && a.offset == 0; }));
}

/// The second of four ranks reads from the fourth at once what that has for the first, which goes to its stage, and for itself.
TEST(Actions, CopyAtOnceWhatLiesSideBySideInAPeersMemory) {
  const Bound bound = bound_of(*plan::find_algorithm(Collective::all_to_all, "single_copy_pairs"), 4, 1, {100, {}, {}});
  std::vector<Action> fetches;
  for (const Action& action : bound.actions.list)
    if (plan::copies(action.op) && bound.actions.of(action, action.targets + std::size_t{1}).back().rank == 3)
      fetches.push_back(action);
  ASSERT_EQ(fetches.size(), 1u);
  EXPECT_EQ(fetches[0].targets, 2);
  EXPECT_EQ(fetches[0].bytes, 400u);
  const auto operands = bound.actions.of(fetches[0], 3);
  EXPECT_EQ(operands[0].space, Space::stage);
  EXPECT_EQ(operands[0].rank, 1);
  EXPECT_EQ(operands[1], (Address{Space::out, -1, 3 * 400}));
  EXPECT_EQ(operands[2], (Address{Space::peer_in, 3, 0}));
}

}  // namespace
}  // namespace unisono::engine

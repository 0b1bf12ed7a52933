#pragma once
/// What the parts of the verifier share. Only verify*.cc include this.

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plan/layout.h"
#include "plan/values.h"
#include "plan/verify.h"

namespace unisono::plan::verification {

/// Index of a step among the steps of all ranks.
using GlobalStep = std::uint32_t;
inline constexpr std::uint32_t kNone = ~std::uint32_t{0};

/// Vector clocks: the later of two, component by component.
inline void take_later(std::uint32_t* __restrict to, const std::uint32_t* __restrict from, std::uint32_t lanes) {
  for (std::uint32_t i = 0; i < lanes; i++) to[i] = to[i] < from[i] ? from[i] : to[i];
}

/// Collects violations up to a limit.
class Findings {
 public:
  Findings(std::vector<Violation>& violations, std::size_t limit) : violations_(violations), limit_(limit) {}
  bool full() const noexcept { return violations_.size() >= limit_; }
  bool any() const noexcept { return !violations_.empty(); }
  void add(Fault fault, std::int32_t rank, std::int64_t step, std::string text) {
    if (!full()) violations_.push_back({fault, rank, step, std::move(text)});
  }

 private:
  std::vector<Violation>& violations_;
  std::size_t limit_;
};

/// The plans under proof, with their steps and blocks numbered through.
struct Subject {
  Subject(std::span<const Plan> all, std::int32_t slice_count);

  std::int32_t ranks() const noexcept { return static_cast<std::int32_t>(plans.size()); }
  const Plan& plan(std::int32_t rank) const { return plans[static_cast<std::size_t>(rank)]; }
  GlobalStep global(std::int32_t rank, std::uint32_t step) const {
    return first_step[static_cast<std::size_t>(rank)] + step;
  }
  std::int32_t rank_of(GlobalStep g) const { return owner[g]; }
  std::uint32_t local(GlobalStep g) const { return g - first_step[static_cast<std::size_t>(rank_of(g))]; }
  const Step& step(GlobalStep g) const { return plan(rank_of(g)).steps[local(g)]; }
  std::uint32_t steps() const noexcept { return first_step.back(); }
  /// "rank 2 step 5 (recv out[1] from 0)"
  std::string name(GlobalStep g) const;
  /// The pairs that share memory when the caller aliases, over all slices.
  std::vector<AliasedBlocks> aliased(std::int32_t rank) const;
  bool any_aliased() const;  ///< of any rank

  std::span<const Plan> plans;
  std::int32_t slices;
  std::vector<std::uint32_t> first_step;  ///< of each rank, and the end
  std::vector<std::int32_t> owner;        ///< rank of each step
};

/// Every block of every rank has a number; where `in_place`, aliased blocks share one.
struct Cells {
  Cells(const Subject& subject, bool in_place);
  std::uint32_t of(std::int32_t rank, const Ref& ref, std::int32_t offset) const;

  std::uint32_t count = 0;
  std::vector<std::uint32_t> in;                                               ///< of each in block, by first_in
  std::vector<std::uint32_t> first_in, first_out, first_scratch, first_stage;  ///< by rank; in: index in `in`
};

/// Order between steps: what each waits for before it may start, other than its message or signal.
struct Links {
  std::vector<std::uint32_t> pending;          ///< how many steps each waits for
  std::vector<std::uint32_t> first_successor;  ///< CSR into successors
  std::vector<GlobalStep> successors;
  std::vector<GlobalStep> counterpart;  ///< the other end of a message, or kNone
};

/// Everything that can be seen in one plan at a time, and layouts. Without malformed steps the others may run.
void check_structure(const Subject& subject, Findings& findings);
/// Reductions that ranks do parts of for each other.
void check_joint(const Subject& subject, Findings& findings);
/// Races on the memory of one rank, by lanes and dependencies alone.
void check_local_order(const Subject& subject, Findings& findings);
/// Pairs up messages.
Links link(const Subject& subject, Findings& findings);
/// Runs all ranks symbolically.
void execute(const Subject& subject, const Links& links, bool in_place, Findings& findings);
/// Where an execution stands that cannot go on.
struct Standstill {
  const std::vector<std::uint32_t>&
      pending;                    ///< of each step: how many it still waits for, besides a message or signal
  const std::vector<bool>& done;  ///< of each step
  std::uint32_t completed;        ///< how many are done
};
/// Says which steps wait for each other in a circle, or for something that never comes.
void report_deadlock(const Subject& subject, const Links& links, const Standstill& at, Findings& findings);
/// Steps and volume as registry.h defines them.
Cost count(const Subject& subject, const Links& links);
void check_cost(const Cost& counted, const Cost& expected, Findings& findings);

}  // namespace unisono::plan::verification

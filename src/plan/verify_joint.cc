/// The reductions of joint plans: whoever does a part of another rank's takes its own step for that one's, with another block.

#include <fmt/format.h>

#include <algorithm>

#include "plan/print.h"
#include "plan/verify_internal.h"

namespace unisono::plan::verification {

namespace {

/// Whose buffer an operand lies in, on which side, and which block it is, counted from the block of the rank whose step it is.
struct Operand {
  bool input;
  std::int32_t owner, block;
  friend bool operator==(const Operand&, const Operand&) = default;
};

class JointCheck {
 public:
  JointCheck(const Subject& subject, Findings& findings) : subject_(subject), findings_(findings) {}

  void run() {
    const bool joint = subject_.plan(0).joint;
    if (joint && !subject_.plan(0).shared)
      return findings_.add(Fault::joint, 0, -1, "only a shared plan can be a joint one");
    const std::vector<std::uint32_t> first = reductions(0);
    if (joint && first.size() > static_cast<std::size_t>(subject_.slices))
      findings_.add(Fault::joint, 0, first.back(),
                    "a joint plan has more than one reduce: who helps cannot tell them apart");
    for (std::int32_t r = 0; r < subject_.ranks() && !findings_.full(); r++) {
      if (subject_.plan(r).joint != joint)
        findings_.add(Fault::joint, r, -1,
                      fmt::format("rank {} and rank 0 disagree on whether the plan is a joint one", r));
      else if (joint)
        compare(first, r);
    }
  }

 private:
  std::vector<std::uint32_t> reductions(std::int32_t rank) const {
    std::vector<std::uint32_t> found;
    const auto& steps = subject_.plan(rank).steps;
    for (std::uint32_t i = 0; i < steps.size(); i++)
      if (steps[i].op == OpCode::reduce) found.push_back(i);
    return found;
  }

  void compare(const std::vector<std::uint32_t>& first, std::int32_t rank) {
    const std::vector<std::uint32_t> here = reductions(rank);
    if (here.size() != first.size())
      return findings_.add(Fault::joint, rank, -1,
                           fmt::format("rank {} reduces {} times, rank 0 {} times", rank, here.size(), first.size()));
    for (std::size_t k = 0; k < here.size(); k++) {
      const GlobalStep mine = subject_.global(rank, here[k]), model = subject_.global(0, first[k]);
      if (!same(mine, model))
        findings_.add(Fault::joint, rank, here[k],
                      fmt::format("{} is not what {} is, one block further for each rank", subject_.name(mine),
                                  subject_.name(model)));
    }
  }

  bool same(GlobalStep a, GlobalStep b) const {
    const Plan &plan_a = subject_.plan(subject_.rank_of(a)), &plan_b = subject_.plan(subject_.rank_of(b));
    const Step &step_a = subject_.step(a), &step_b = subject_.step(b);
    const auto equal = [&](std::span<const Ref> one, std::span<const Ref> other) {
      return std::ranges::equal(one, other, [&](const Ref& x, const Ref& y) {
        return open(x, a) && operand(x, a) == operand(y, b) && x.count == 1;
      });
    };
    return step_a.final == step_b.final && equal(plan_a.dst(step_a), plan_b.dst(step_b)) &&
           equal(plan_a.src(step_a), plan_b.src(step_b));
  }

  Operand operand(const Ref& ref, GlobalStep step) const {
    const std::int32_t rank = subject_.rank_of(step);
    return {ref.space == Space::in || ref.space == Space::peer_in, is_peer(ref.space) ? ref.rank : rank,
            ref.first - rank};
  }

  /// Whether others get at the operand, too.
  bool open(const Ref& ref, GlobalStep step) const {
    if (ref.space == Space::scratch || ref.space == Space::stage) return false;
    const Operand what = operand(ref, step);
    const std::uint8_t bit = what.input ? kExposesIn : kExposesOut;
    return (subject_.plan(0).exposed[static_cast<std::size_t>(what.owner)] & bit) != 0;
  }

  const Subject& subject_;
  Findings& findings_;
};

}  // namespace

void check_joint(const Subject& subject, Findings& findings) { JointCheck(subject, findings).run(); }

}  // namespace unisono::plan::verification

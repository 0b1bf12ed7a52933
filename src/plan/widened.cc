#include "plan/widened.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "plan/builder.h"

namespace unisono::plan {

namespace {

/// Writes the steps of a plan again, as the author did, with other operands.
class Widener {
 public:
  explicit Widener(const Plan& plan)
      : plan_(plan), builder_(plan.collective, plan.algorithm, plan.shape, plan.extents) {
    for (const Space space : {Space::in, Space::out, Space::scratch})
      homes_[static_cast<std::size_t>(space)].resize(plan.extents_of(space).size());
  }

  Plan run() {
    for (step_ = 0; step_ < plan_.steps.size(); step_++) add(plan_.steps[step_]);
    return std::move(builder_).build();
  }

 private:
  /// Where a block of the plan is now. The input lies where the caller has it, and is copied once
  /// it is added or sent.
  struct Home {
    std::optional<Ref> wide, narrow;
    bool is_wide = false;  ///< the value that it has now
  };

  void add(const Step& step) {
    const auto src = plan_.src(step), dst = plan_.dst(step);
    switch (step.op) {
      case OpCode::send: {
        RefList parts;
        each(src, [&](const Ref& block) { parts.add(to_be_sent(block)); });
        builder_.send(step.peer, parts);
        break;
      }
      case OpCode::recv: {
        RefList parts;
        each(dst, [&](const Ref& block) { parts.add(is_added(block) ? wide(block) : narrow(block)); });
        builder_.recv(step.peer, parts);
        break;
      }
      case OpCode::reduce:
        for (std::int32_t i = 0; i < dst.front().count; i++) reduce(src, dst, i, step.final);
        break;
      default:
        for (std::int32_t i = 0; i < dst.front().count; i++) copy(nth(dst.front(), i), nth(src.front(), i));
        break;
    }
  }

  static Ref nth(const Ref& ref, std::int32_t i) { return {ref.space, ref.rank, ref.first + i, 1}; }
  template <class Do>
  static void each(std::span<const Ref> refs, Do&& work) {
    for (const Ref& ref : refs)
      for (std::int32_t i = 0; i < ref.count; i++) work(nth(ref, i));
  }

  Home& home(const Ref& block) {
    return homes_[static_cast<std::size_t>(block.space)][static_cast<std::size_t>(block.first)];
  }
  std::int32_t extent(const Ref& block) const {
    return plan_.extents_of(block.space)[static_cast<std::size_t>(block.first)];
  }

  /// Where the block's next value goes, wide or not.
  Ref wide(const Ref& block) {
    Home& h = home(block);
    if (!h.wide) h.wide = builder_.new_wide_scratch(extent(block));
    h.is_wide = true;
    return *h.wide;
  }
  Ref narrow(const Ref& block) {
    Home& h = home(block);
    if (!h.narrow) h.narrow = block.space == Space::scratch ? builder_.new_scratch(extent(block)) : block;
    h.is_wide = false;
    return *h.narrow;
  }

  /// Where the block's value is as f32: of an input a copy.
  Ref operand(const Ref& block) {
    Home& h = home(block);
    if (h.is_wide) return *h.wide;
    const Ref from = narrow(block), to = wide(block);
    builder_.copy(to, from);
    return to;
  }

  /// What is sent as it is has all contributions; all else is on its way to a sum.
  Ref to_be_sent(const Ref& block) {
    if (block.space == Space::in) return operand(block);
    return home(block).is_wide ? *home(block).wide : narrow(block);
  }

  /// Whether a later reduce reads the block before anything else is written there.
  bool is_added(const Ref& block) const {
    const auto has = [&](const Ref& ref) { return overlap(ref, block); };
    for (std::size_t next = step_ + 1; next < plan_.steps.size(); next++) {
      const Step& step = plan_.steps[next];
      if (step.op == OpCode::reduce && std::ranges::any_of(plan_.src(step), has)) return true;
      if (std::ranges::any_of(plan_.dst(step), has)) return false;
    }
    return false;
  }

  void reduce(std::span<const Ref> src, std::span<const Ref> dst, std::int32_t i, bool final) {
    std::vector<Ref> from, to;
    for (const Ref& ref : src) from.push_back(operand(nth(ref, i)));
    for (const Ref& ref : dst) to.push_back(wide(nth(ref, i)));
    builder_.reduce_into(to, from, final);
    if (!final) return;
    for (std::size_t k = 0; k < dst.size(); k++) builder_.copy(narrow(nth(dst[k], i)), to[k]);
  }

  void copy(const Ref& dst, const Ref& src) {
    const Ref from = to_be_sent(src);
    builder_.copy(home(src).is_wide ? wide(dst) : narrow(dst), from);
  }

  const Plan& plan_;
  PlanBuilder builder_;
  std::array<std::vector<Home>, 3> homes_;  ///< by space and block
  std::size_t step_ = 0;
};

}  // namespace

Plan widened(const Plan& plan) { return Widener(plan).run(); }

}  // namespace unisono::plan

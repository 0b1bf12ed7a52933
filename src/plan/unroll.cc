#include "plan/unroll.h"

#include <algorithm>
#include <utility>

#include "plan/layout.h"

namespace unisono::plan {

namespace {

template <class T>
void repeat(std::vector<T>& blocks, std::int32_t times) {
  const auto once = blocks;
  for (std::int32_t t = 1; t < times; t++) blocks.insert(blocks.end(), once.begin(), once.end());
}

class Unroller {
 public:
  Unroller(const Plan& plan, const Unrolling& how) : plan_(plan), how_(how), all_(plan) {
    all_.steps.clear();
    all_.refs.clear();
    all_.deps.clear();
    all_.lanes = static_cast<std::uint16_t>(how.slices * (plan.lanes + 1));
    all_.channels = static_cast<std::uint16_t>(how.slices * (plan.channels + 1));
    repeat(all_.in_extent, how.slices);
    repeat(all_.out_extent, how.slices);
    repeat(all_.scratch_extent, how.window);
    repeat(all_.wide, how.window);
    repeat(all_.stage_extent, how.window);
    const auto times = static_cast<std::size_t>(how.slices);
    all_.steps.reserve(times * (plan.steps.size() + 1));
    all_.refs.reserve(times * plan.refs.size());
    all_.deps.reserve(times * (plan.deps.size() + std::size_t{2} * plan.lanes));
    for (const Step& step : plan.steps) {
      if (step.op == OpCode::send || step.op == OpCode::recv) {
        message_channels_ = std::max<std::uint16_t>(message_channels_, static_cast<std::uint16_t>(step.channel + 1));
      }
    }
  }

  Plan run() {
    for (slice_ = 0; slice_ < how_.slices; slice_++) add_slice();
    return std::move(all_);
  }

 private:
  void add_slice() {
    const std::uint32_t gate = add_gate();
    const auto base = static_cast<std::uint32_t>(all_.steps.size());
    std::vector<bool> begun(plan_.lanes, false);
    std::vector<std::uint32_t> last(plan_.lanes, kNone);
    std::vector<std::uint32_t> deps;
    for (const Step& step : plan_.steps) {
      deps.clear();
      for (const std::uint32_t dep : plan_.waits_for(step)) deps.push_back(base + dep);
      if (!begun[step.lane] && gate != kNone) deps.push_back(gate);
      begun[step.lane] = true;
      last[step.lane] = add_copy(step, deps);
    }
    std::erase(last, kNone);
    done_.push_back(add_flag(OpCode::signal, -1, channel(slice_, plan_.channels), last));
  }

  // What the first step of each lane waits for; kNone for the first slices.
  std::uint32_t add_gate() {
    const std::int32_t before = slice_ - how_.window;
    if (before < 0) return kNone;
    std::uint32_t gate = done_[static_cast<std::size_t>(before)];
    if (!plan_.staged || !how_.wait_for_done) return gate;
    for (std::int32_t q = 0; q < plan_.shape.ranks; q++) {
      if (q != plan_.shape.rank) gate = add_flag(OpCode::wait, q, channel(before, plan_.channels), {gate});
    }
    return gate;
  }

  std::uint16_t channel(std::int32_t slice, std::int32_t c) const {
    return static_cast<std::uint16_t>(slice * (plan_.channels + 1) + c);
  }

  std::uint32_t add_flag(OpCode op, std::int32_t peer, std::uint16_t flag, const std::vector<std::uint32_t>& deps) {
    Step step;
    step.op = op;
    step.peer = peer;
    step.channel = flag;
    step.lane = static_cast<std::uint16_t>(slice_ * (plan_.lanes + 1) + plan_.lanes);
    step.src_count = step.dst_count = 0;
    return add(step, deps);
  }

  std::uint32_t add_copy(const Step& model, const std::vector<std::uint32_t>& deps) {
    Step step = model;
    step.lane = static_cast<std::uint16_t>(slice_ * (plan_.lanes + 1) + model.lane);
    const bool message = model.op == OpCode::send || model.op == OpCode::recv;
    step.channel = message ? static_cast<std::uint16_t>(slice_ * message_channels_ + model.channel)
                           : channel(slice_, model.channel);
    step.src_begin = add_moved(plan_.src(model));
    step.dst_begin = add_moved(plan_.dst(model));
    return add(step, deps);
  }

  std::size_t blocks_of(const Ref& ref) const {
    return is_peer(ref.space) ? peer_extents(plan_, ref.space, ref.rank).size() : plan_.extents_of(ref.space).size();
  }

  // Returns where they begin.
  std::uint32_t add_moved(std::span<const Ref> refs) {
    const std::size_t begin = all_.refs.size();
    for (Ref ref : refs) {
      const bool own_copy = ref.space == Space::in || ref.space == Space::out || is_peer(ref.space);
      const std::int32_t copy = own_copy ? slice_ : slice_ % how_.window;
      ref.first += copy * static_cast<std::int32_t>(blocks_of(ref));
      all_.refs.push_back(ref);
    }
    return static_cast<std::uint32_t>(begin);
  }

  std::uint32_t add(Step step, const std::vector<std::uint32_t>& deps) {
    step.dep_begin = static_cast<std::uint32_t>(all_.deps.size());
    step.dep_count = static_cast<std::uint32_t>(deps.size());
    all_.deps.insert(all_.deps.end(), deps.begin(), deps.end());
    all_.steps.push_back(step);
    return static_cast<std::uint32_t>(all_.steps.size() - 1);
  }

  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  const Plan& plan_;
  const Unrolling& how_;
  Plan all_;
  std::uint16_t message_channels_ = 1;
  std::int32_t slice_ = 0;
  std::vector<std::uint32_t> done_;  ///< by slice: the signal behind it
};

}  // namespace

Plan unroll(const Plan& plan, const Unrolling& how) { return Unroller(plan, how).run(); }

}  // namespace unisono::plan

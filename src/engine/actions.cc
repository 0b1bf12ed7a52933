#include "engine/actions.h"

#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "engine/binding.h"

namespace unisono::engine {

using plan::OpCode;
using plan::Ref;
using plan::Space;
using plan::Step;

namespace {

/// Lists the actions of one plan.
class Lister {
 public:
  Lister(const plan::Plan& plan, const Binding& binding) noexcept : plan_(plan), binding_(binding) {}

  Actions list() && {
    for (std::uint32_t i = 0; i < plan_.steps.size(); i++) {
      const Step& step = plan_.steps[i];
      if (step.op == OpCode::signal || step.op == OpCode::wait)
        actions_.list.push_back({step.op, step.channel, step.peer, i});
      else
        for (std::int32_t block = 0; block < plan_.dst(step)[0].count; block++) add(i, block);
    }
    return std::move(actions_);
  }

 private:
  struct Place {
    Address address;
    std::int64_t bytes;
  };

  /// What step `index` does with so manieth blocks of its operands.
  void add(std::uint32_t index, std::int32_t block) {
    const Step& step = plan_.steps[index];
    const auto first = static_cast<std::uint32_t>(actions_.operands.size());
    std::int64_t bytes = std::numeric_limits<std::int64_t>::max();
    for (const auto refs : {plan_.dst(step), plan_.src(step)})
      for (const Ref& ref : refs) {
        const Place place = place_of(ref, ref.first + block);
        actions_.operands.push_back(place.address);
        bytes = std::min(bytes, place.bytes);
      }
    if (bytes == 0)
      actions_.operands.resize(first);
    else
      actions_.list.push_back({step.op, 0, -1, index, first, static_cast<std::size_t>(bytes)});
  }

  Place place_of(const Ref& ref, std::int32_t block) const {
    const std::int64_t stride = std::max<std::int64_t>(divide_up(binding_.largest_block, kLine), 1) * kLine;
    switch (ref.space) {
      case Space::in:
        return {{ref.space, -1, binding_.in.offset[block]}, binding_.in.size(block)};
      case Space::out:
        return {{ref.space, -1, binding_.out.offset[block]}, binding_.out.size(block)};
      case Space::scratch:
        return {{ref.space, -1, block * stride}, binding_.scratch[block]};
      case Space::stage:
        // How much of another rank's block is used is for the other side of the step to say.
        return {{ref.space, ref.rank, block * stride},
                ref.rank == plan_.shape.rank ? binding_.stage[block] : std::numeric_limits<std::int64_t>::max()};
      case Space::peer_in:
      case Space::peer_out: {
        const PeerBlock there = peer_block(plan_, binding_, ref.space, ref.rank, block);
        return {{ref.space, ref.rank, there.offset}, there.bytes};
      }
    }
    return {};
  }

  static constexpr std::int64_t kLine = 64;

  const plan::Plan& plan_;
  const Binding& binding_;
  Actions actions_;
};

}  // namespace

bool runs_uncut(const plan::Plan& plan, const Binding& binding) noexcept {
  return plan.staged && plan.lanes == 1 && binding.largest_block <= kUncut;
}

Actions actions_of(const plan::Plan& plan, const Binding& binding) { return Lister(plan, binding).list(); }

}  // namespace unisono::engine

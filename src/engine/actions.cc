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
        actions_.list.push_back({step.op, 1, step.channel, step.peer, i});
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
    else if (goes_on(step, static_cast<std::size_t>(bytes)))
      join();
    else
      actions_.list.push_back({step.op, 1, 0, -1, index, first, static_cast<std::size_t>(bytes)});
  }

  /// Whether the operands that were added last are those of a copy from where the action before it stops.
  bool goes_on(const Step& step, std::size_t bytes) const {
    if (actions_.list.empty() || !plan::copies(step.op)) return false;
    const Action& before = actions_.list.back();
    if (!plan::copies(before.op) || before.targets == Action::kMostTargets || before.bytes != bytes) return false;
    const Address& from = actions_.operands[before.operands + before.targets];
    const Address end{from.space, from.rank, from.offset + static_cast<std::int64_t>(before.targets * bytes)};
    return plan::is_peer(from.space) && actions_.operands.back() == end;
  }
  /// Its destination is one more of the action before it.
  void join() {
    Action& before = actions_.list.back();
    const auto source = actions_.operands.begin() + before.operands + before.targets;
    const Address to = *(actions_.operands.end() - 2);
    actions_.operands.erase(actions_.operands.end() - 2, actions_.operands.end());
    actions_.operands.insert(source, to);
    before.targets++;
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

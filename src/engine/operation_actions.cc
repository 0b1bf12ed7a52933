/// Operations whose blocks are not cut: actions one after another, instead of the lanes and pieces of operation_steps.cc.

#include <algorithm>
#include <array>

#include "engine/operands.h"
#include "engine/operation.h"

namespace unisono::engine {

using plan::OpCode;
using plan::Space;

/// Its one slice. Whether anything was done.
bool Operation::advance_uncut(Slot& slot) {
  const std::vector<Action>& actions = bound_->actions.list;
  std::uint32_t& next = *slot.position;
  const std::uint32_t before = next;
  while (next < actions.size() && act(slot, actions[next])) next++;
  slot.finished = next == actions.size();
  return next != before;
}

/// Whether it is done; not, when it has to wait or the operation has failed.
bool Operation::act(const Slot& slot, const Action& action) {
  Domain& domain = *ground_.domain;
  if (action.bytes * action.targets > kBrief) tell();
  switch (action.op) {
    case OpCode::wait:
      if (peer_arrived(action.peer) && domain.reached(action.peer, action.channel, base_ + 1)) return true;
      if (joint_gets_) help_get(action.peer);
      return false;
    case OpCode::signal:
      domain.signal(action.channel, base_ + 1);
      return true;
    case OpCode::reduce:
      return act_reduce(slot, action);
    default:
      return act_copy(slot, action);
  }
}

std::byte* Operation::memory_at(const Slot& slot, const Address& a) const {
  switch (a.space) {
    case Space::in:
      return const_cast<std::byte*>(request_.in) + a.offset;  // as part() has it
    case Space::out:
      return request_.out + a.offset;
    case Space::scratch:
      return ground_.scratch->data() + a.offset;
    case Space::stage:
      return peers_[host_of(slot, a.rank)].stage + slot.stage + a.offset;
    case Space::peer_in:
      return peers_[a.rank].in + a.offset;
    case Space::peer_out:
      return peers_[a.rank].out + a.offset;
  }
  return nullptr;
}

bool Operation::act_copy(const Slot& slot, const Action& action) {
  const auto operands = bound_->actions.of(action, action.targets + std::size_t{1});
  const auto targets = operands.first(action.targets);
  const Address& source = operands.back();
  const bool to_stage = std::ranges::find(targets, Space::stage, &Address::space) != targets.end();
  if (to_stage && !has_stage(slot)) return false;
  if (reads_peers_ && plan::is_peer(source.space))
    return is_readable(source.rank) && act_get(slot, action, targets, source);
  const std::byte* from = memory_at(slot, source);
  for (const Address& target : targets) {
    std::byte* const to = memory_at(slot, target);
    if (to == from)
      ;  // in place
    else if (target.space == Space::stage && !to_and_fro())
      ground_.domain->stores().copy(to, from, action.bytes);
    else if (source.space == Space::stage || target.space == Space::stage)
      kernels::fetch(to, from, action.bytes);
    else
      kernels::copy(to, from, action.bytes);
    from += action.bytes;
  }
  return true;
}

bool Operation::act_reduce(const Slot& slot, const Action& action) {
  const plan::Step& step = plan().steps[action.step];
  Operands memory(step.dst_count + step.src_count);
  const std::span<void*> all = memory.all();
  const auto operands = bound_->actions.of(action, all.size());
  if (is_offered_get(action.step)) {
    const Address& from = *std::ranges::find_if(operands, plan::is_peer, &Address::space);
    return act_offered(memory_at(slot, operands[0]), part_of_peer(from, action.bytes));
  }
  for (std::size_t k = 0; k < all.size(); k++) {
    const Address& a = operands[k];
    if (!reads_peers_ || !plan::is_peer(a.space)) {
      all[k] = memory_at(slot, a);
      continue;
    }
    std::byte* const fetched = ground_.scratch->data() + static_cast<std::size_t>(a.rank) * kFetched;
    if (!fetch(fetched, part_of_peer(a, action.bytes), 0, action.bytes)) return false;
    all[k] = fetched;
  }
  reduce_operands(step, all, action.bytes);
  return true;
}

/// What lies in the memory of a peer, which can only be read through the kernel.
Operation::Part Operation::part_of_peer(const Address& a, std::size_t bytes) const {
  const std::uint64_t at = announced_at(a.space, a.rank) + static_cast<std::uint64_t>(a.offset);
  return {reinterpret_cast<std::byte*>(at), bytes, a.rank};
}

/// Copies from there, if nobody helps at once; whether all of it is done.
bool Operation::act_get(const Slot& slot, const Action& action, std::span<const Address> targets, const Address& from) {
  const Part there = part_of_peer(from, action.bytes * targets.size());
  if (is_offered_get(action.step)) return act_offered(memory_at(slot, targets[0]), there);
  std::array<transport::MutablePart, Action::kMostTargets> parts;
  for (std::size_t k = 0; k < targets.size(); k++) parts[k] = {memory_at(slot, targets[k]), action.bytes};
  return fetch(std::span(parts).first(targets.size()), there, 0);
}

/// Whether all of it is done: by others what is not done at once.
bool Operation::act_offered(std::byte* to, const Part& from) {
  Done done = run_get(to, from);
  while (done == Done::some) done = run_offered();
  return done == Done::all;
}

}  // namespace unisono::engine

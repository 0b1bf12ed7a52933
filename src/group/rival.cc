/// Large collectives inside a host: copied twice by way of stages, or once through the kernel, whichever is faster just now.

#include <bit>

#include "group/group_impl.h"

namespace unisono::detail {

/// Who sees when all is there: where the result is, or the last of it. The root of a broadcast or scatter may have done its
/// part long before.
int GroupImpl::judge_of(const Call& call) const noexcept {
  switch (call.collective) {
    case Collective::broadcast:
    case Collective::scatter:
      return (call.root + 1) % size();
    case Collective::reduce:
    case Collective::gather:
      return call.root;
    default:
      return 0;
  }
}

/// What may run instead of what the table names, or null. The same on all ranks: it depends on the call and the table alone.
const plan::Algorithm* GroupImpl::rival_algorithm(const Pending& p) const {
  if (p.requested != nullptr || !parts_.peer_memory || overridden_[static_cast<std::size_t>(p.call.collective)])
    return nullptr;
  plan::Question q = question(p.call);
  if (!q.one_host) return nullptr;
  q.peer_memory = true;
  const plan::Algorithm* algorithm = parts_.selector.choose(q);
  return algorithm->place == plan::Place::peer_memory ? algorithm : nullptr;
}

group::Contest& GroupImpl::contest_of(const Call& call) {
  const auto bytes = static_cast<std::uint64_t>(collective_bytes(call, size()));
  return contests_[{call.collective, static_cast<int>(std::bit_width(bytes))}];
}

/// The clock is read only where the contest needs it: until all are here, and at the end.
bool GroupImpl::advance_operation(Pending& p) {
  if (p.contest == nullptr) return p.operation->advance();
  const Clock& clock = parts_.context->clock;
  const TimePoint before = p.all_here == TimePoint{} ? clock.now() : p.all_here;
  const bool moved = p.operation->advance();
  if (p.all_here == TimePoint{} && (p.operation->done() || p.operation->everyone_here())) p.all_here = before;
  if (p.operation->done() && p.operation->status().ok()) {
    const engine::Bound& ran = operation_->runs();
    const engine::Prepared& prepared = *p.known->prepared;
    const TimePoint now = clock.now();
    if (&ran != &prepared.shared && now > p.all_here)
      p.contest->record(&ran == &prepared.rival ? group::Contest::Side::rival : group::Contest::Side::usual,
                        now - p.all_here);
    p.contest = nullptr;
  }
  return moved;
}

}  // namespace unisono::detail

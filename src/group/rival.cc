/// Large collectives inside a host: copied twice by way of stages, or once through the kernel, whichever is faster just now.

#include <algorithm>
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

group::Contest& GroupImpl::contest_of(const Call& call, bool in_place) {
  const auto bytes = static_cast<std::uint64_t>(collective_bytes(call, size()));
  // A turn around a stage, and then some, after which its stores know their way. Ranks that take turns on cores wait for these more than for stores.
  constexpr std::uint64_t kTrialBytes = 4 << 20, kMostRuns = 64;
  const bool short_trials = parts_.context->progress->cores_are_few();
  const auto runs = short_trials ? 0 : std::min(kTrialBytes / std::max<std::uint64_t>(bytes, 1), kMostRuns);
  return contests_.try_emplace({call.collective, static_cast<int>(std::bit_width(bytes)), in_place}, runs)
      .first->second;
}

/// The clock is read only where the contest needs it: until the time counts, and at the end. It counts from when all ranks have begun: who came early
/// with a long wait has not run a slow algorithm. But where ranks take turns on the cores they come one after the other in any case, and staging, which waits for
/// nobody, is half done when the last one comes, so there it counts from the beginning.
bool GroupImpl::advance_operation(Pending& p) {
  if (p.contest == nullptr) return p.operation->advance();
  const Clock& clock = parts_.context->clock;
  const bool counts = p.timed_from != TimePoint{};
  const TimePoint before = counts ? p.timed_from : clock.now();
  const bool moved = p.operation->advance();
  if (!counts && (parts_.context->progress->ranks_take_turns() || p.operation->done() || p.operation->everyone_here()))
    p.timed_from = before;
  if (p.operation->done() && p.operation->status().ok()) {
    const engine::Bound& ran = operation_->runs();
    const engine::Prepared& prepared = *p.known->prepared;
    const TimePoint now = clock.now();
    const bool rival = &ran == &prepared.rival;
    if ((rival || &ran == &prepared.usual) && now > p.timed_from)  // shared ones take no part
      p.contest->record(rival ? group::Contest::Side::rival : group::Contest::Side::usual, now - p.timed_from);
    p.contest = nullptr;
  }
  return moved;
}

}  // namespace unisono::detail

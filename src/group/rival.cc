/// Large collectives inside a host: copied twice by way of stages, or once through the kernel, whichever is faster just now.

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

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

Rivalry& GroupImpl::rivalry_of(const Call& call, int judge) {
  const auto bytes = static_cast<std::uint64_t>(collective_bytes(call, size()));
  const auto digits = static_cast<int>(std::bit_width(bytes));
  // A turn around a stage, and then some, after which its stores know their way, and ranks that take turns on cores their turns.
  constexpr std::uint64_t kTrialBytes = 4 << 20, kMostRuns = 64;
  const group::Contest contest(
      static_cast<std::uint32_t>(std::min(kTrialBytes / std::max<std::uint64_t>(bytes, 1), kMostRuns)));
  return rivalries_
      .try_emplace({call.collective, digits, judge}, Rivalry{{call.collective, digits, 0}, {}, {contest, contest}, {}})
      .first->second;
}

/// The call is one of its rivalry's. The judge says in each what runs in the next one; of this one all have heard in the last one, so that nobody waits for the judge before it begins (docs/design/0008, "One call ahead").
void GroupImpl::compete(Pending& p, engine::Request& request) {
  using Side = group::Contest::Side;
  Rivalry& rivalry = *p.known->rivalry;
  request.judged = rivalry.next;
  rivalry.next.number++;
  if (rank() != p.known->prepared->judge || !p.known->prepared->rival) return;
  group::Contest& contest = rivalry.contests[p.call.input == p.call.output];
  request.rival_runs = contest.now() == Side::rival;
  request.rival_runs_next = contest.next() == Side::rival;
  if (contest.timed() || parts_.context->progress->cores_are_few()) p.contest = &contest;
}

namespace {
/// Blocks from so many bytes on are offered, for each rank that waits to help. What the helper has written lies in its core's cache, and whoever uses shorter ones right away has to have them from there: that takes
/// longer than it saves in many a program, so there it is tried, if they are not so short that it saves nothing at all (docs/design/0008).
constexpr std::int64_t kOffered = 768 << 10, kTried = 32 << 10;
}  // namespace

/// Whether this rank, should it get its block through the kernel, offers a part of it to the rank that has it. It need not ask the others: who has it helps where it is offered.
bool GroupImpl::offers_get(const Pending& p, const engine::Request& request) {
  const Known& known = *p.known;
  const std::int64_t waiting = rank() == p.call.root ? 1 : size() - 1;
  if (!reduces(p.call.collective) && known.got >= kOffered * waiting) return true;
  const bool tried = size() == 2 && known.got >= kTried && known.prepared->rival && rank() == known.prepared->judge;
  if (!tried || parts_.context->progress->cores_are_few()) return false;
  group::RoundTrial& trial = known.rivalry->helped[p.call.input == p.call.output];
  if (request.rival_runs) return trial.choose(parts_.context->clock);
  trial.interrupt();
  return false;
}

/// The clock is read only where the contest needs it: until the time counts, and at the end. It counts from when all ranks have begun: who came early
/// with a long wait has not run a slow algorithm. But where ranks take turns on the cores they come one after the other in any case, and staging, which waits for
/// nobody, is half done when the last one comes, so there it counts from the beginning, and from the end of the last call, too.
bool GroupImpl::advance_operation(Pending& p) {
  if (p.contest == nullptr) return p.operation->advance();
  const Clock& clock = parts_.context->clock;
  const bool counts = p.timed_from != TimePoint{};
  const TimePoint before = counts ? p.timed_from : clock.now();
  const bool moved = p.operation->advance();
  if (!counts && (parts_.context->progress->ranks_take_turns() || p.operation->done() || p.operation->everyone_here()))
    p.timed_from = before;
  if (p.operation->done() && p.operation->status().ok()) time_run(p, clock.now());
  return moved;
}

namespace {
constexpr Duration kUntilHeard = std::chrono::nanoseconds(100);  // a line's way from a core to another one
}

void GroupImpl::time_run(Pending& p, TimePoint now) {
  using Side = group::Contest::Side;
  const engine::Bound& ran = operation_->runs();
  const engine::Prepared& prepared = *p.known->prepared;
  const bool rival = &ran == &prepared.rival;
  TimePoint& ended = p.known->rivalry->ended;
  const bool turns = parts_.context->progress->cores_are_few();
  const Duration since_last = turns && ended != TimePoint{} ? now - ended : Duration{0};
  if (turns) ended = now;
  group::Contest& contest = *std::exchange(p.contest, nullptr);
  if ((!rival && &ran != &prepared.usual) || now <= p.timed_from) return;  // shared ones take no part
  Duration took = now - p.timed_from;
  // The judge of a rooted one ends last, and a copy through the kernel when those who read from the judge have said that they are done. Of stages, where all need
  // all, the judge knows only that it is done itself.
  if (!rival && !rooted(p.call.collective)) took += kUntilHeard;
  contest.record(rival ? Side::rival : Side::usual, took, since_last);
}

}  // namespace unisono::detail

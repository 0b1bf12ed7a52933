/// Large collectives inside a host: copied twice by way of stages, or once through the kernel, whichever is faster just now.

#include <bit>

#include "group/group_impl.h"

namespace unisono::detail {

namespace {
/// Who sees when all is there: where the result is, or the last of it. The root of a broadcast or scatter may have done its
/// part long before.
int judge_of(const Call& call, int size) noexcept {
  switch (call.collective) {
    case Collective::broadcast:
    case Collective::scatter:
      return (call.root + 1) % size;
    case Collective::reduce:
    case Collective::gather:
      return call.root;
    default:
      return 0;
  }
}
}  // namespace

/// The plan that may run instead of the one that the table names. The same on all ranks: it depends on the call and the table alone.
void GroupImpl::prepare_rival(Pending& p, engine::Request& request) {
  if (p.requested != nullptr || !parts_.peer_memory || overridden_[static_cast<std::size_t>(p.call.collective)]) return;
  plan::Question q = question(p.call);
  if (!q.one_host) return;
  q.peer_memory = true;
  const plan::Algorithm* algorithm = parts_.selector.choose(q);
  if (algorithm->place != plan::Place::peer_memory) return;
  request.rival = *compiled(p.call, *algorithm);
  request.rival_binding =
      engine::bind(request.rival->plan, {p.call.count, p.call.counts, p.call.output_counts}, p.call.dtype);
  request.judge = judge_of(p.call, size());
  if (rank() != request.judge) return;
  const int magnitude = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(q.bytes)));
  p.contest = &contests_[{p.call.collective, magnitude}];
  request.rival_runs = p.contest->choose() == group::Contest::Side::rival;
}

/// After an advance that began at `before`.
void GroupImpl::time_contest(Pending& p, TimePoint before) {
  if (p.all_here == TimePoint{} && (p.operation->done() || p.operation->everyone_here())) p.all_here = before;
  if (!p.operation->done() || !p.operation->status().ok()) return;
  const TimePoint now = parts_.context->clock.now();
  const std::string_view ran = p.operation->algorithm();
  const plan::Algorithm* algorithm = plan::find_algorithm(p.call.collective, ran);
  if (algorithm != nullptr && algorithm->place != plan::Place::shared_buffers && now > p.all_here)
    p.contest->record(
        algorithm->place == plan::Place::peer_memory ? group::Contest::Side::rival : group::Contest::Side::usual,
        now - p.all_here);
  p.contest = nullptr;
}

}  // namespace unisono::detail

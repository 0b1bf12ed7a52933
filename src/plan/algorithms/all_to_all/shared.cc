#include "plan/host_map.h"
#include "plan/patterns.h"

/// All inputs are in shared memory: everybody copies what is meant for it straight from there, starting at the next rank so
/// that not all read the same one at once.
///
///   rank 0   copy own | get its 0 from 1 | get its 0 from 2 | signal 0, wait all
///
/// Outputs may be anywhere. Nobody leaves before all have signalled: until then they may read its input.
///
/// Source: folklore. Phases: 1. From others' buffers: (n-1)/n S a rank.
namespace unisono::plan::all_to_all {

Plan shared(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::all_to_all, "shared", shape);
  if (n > 1) share_all(b, kExposesIn);
  b.copy(PlanBuilder::out(r), PlanBuilder::in(r));
  if (n == 1) return std::move(b).build();
  for (const std::int32_t q : nearest_first(shape)) b.get(PlanBuilder::out(q), b.in_of(q, r));
  b.signal(0);
  wait_for_others(b, 0);
  return std::move(b).build();
}

Cost shared_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {1, 1.0 * (shape.ranks - 1) / shape.ranks};
}

}  // namespace unisono::plan::all_to_all

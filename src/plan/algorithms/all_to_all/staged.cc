#include "plan/host_map.h"
#include "plan/patterns.h"

/// All ranks share memory: everybody stages the blocks for others and fetches the blocks meant for it, starting at the
/// next rank so that not all read the same stage at once.
///
///   rank 0   put 1 2 | signal 0 | copy own | wait 1, get its 0 | wait 2, get its 0
///
/// A stage leaves out the own block, so it has n-1 places.
///
/// Source: folklore. Phases: 1. To and from stages: 2 (n-1)/n S a rank.
namespace unisono::plan::all_to_all {

Plan staged(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::all_to_all, "staged", shape);
  if (n > 1) {
    std::vector<std::int32_t> extents = all_ranks_but(n, r);
    for (std::int32_t& e : extents) e += r * n;
    b.stage_extents(extents);
    for (std::int32_t i = 1; i < n; i++) b.put(place_without_own(b.around(r - i), r), PlanBuilder::in(b.around(r - i)));
    b.signal(0);
  }
  b.copy(PlanBuilder::out(r), PlanBuilder::in(r));
  for (const std::int32_t q : nearest_first(shape)) {
    b.wait(q, 0);
    b.get(PlanBuilder::out(q), q, place_without_own(r, q));
  }
  return std::move(b).build();
}

Cost staged_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {1, 2.0 * (shape.ranks - 1) / shape.ranks};
}

}  // namespace unisono::plan::all_to_all

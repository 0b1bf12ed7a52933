#include "plan/host_map.h"
#include "plan/patterns.h"

/// All ranks share memory: everybody stages its block and fetches all others', those of its own NUMA node first, starting at the next rank so
/// that not all read the same stage at once.
///
///   rank 0   put | signal 0 | copy own | wait 1, get 1 | wait 2, get 2
///
/// Source: folklore. Phases: 1. To and from stages: S a rank.
namespace unisono::plan::all_gather {

Plan staged(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::all_gather, "staged", shape);
  if (n > 1) {
    b.stage_extents({r});
    b.put(0, PlanBuilder::in(0));
    b.signal(0);
  }
  b.copy(PlanBuilder::out(r), PlanBuilder::in(0));
  for (const std::int32_t q : nearest_first(shape)) {
    b.wait(q, 0);
    b.get(PlanBuilder::out(q), q, 0);
  }
  return std::move(b).build();
}

Cost staged_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {1, 1};
}

}  // namespace unisono::plan::all_gather

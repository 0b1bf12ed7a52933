#include "plan/patterns.h"

/// All ranks share memory: everybody stages the blocks of others, owners reduce straight from all stages and their own
/// input, in the order of ranks. The first shot of the two-shot all-reduce.
///
///   rank 0   put 1 2 | signal 0 | wait 2, 1 | reduce own + stage 1 + stage 2 -> out
///
/// A stage leaves out the own block, so it has n-1 places.
///
/// Source: folklore. Phases: 1. To and from stages: 2 (n-1)/n S a rank.
namespace unisono::plan::reduce_scatter {

Plan staged(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::reduce_scatter, "staged", shape);
  if (n == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
    return std::move(b).build();
  }
  b.stage_extents(all_ranks_but(n, r));
  for (std::int32_t i = 1; i < n; i++) {
    const std::int32_t owner = (r + i) % n;
    b.put(place_without_own(owner, r), PlanBuilder::in(owner));
  }
  b.signal(0);
  std::vector<Ref> sources;
  for (std::int32_t i = 1; i < n; i++) b.wait(b.around(r - i), 0);
  for (std::int32_t q = 0; q < n; q++) {
    sources.push_back(q == r ? PlanBuilder::in(r) : PlanBuilder::stage(q, place_without_own(r, q)));
  }
  b.reduce({PlanBuilder::out(0)}, sources, true);
  return std::move(b).build();
}

Cost staged_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {1, 2.0 * (shape.ranks - 1) / shape.ranks};
}

}  // namespace unisono::plan::reduce_scatter

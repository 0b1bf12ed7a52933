#include "plan/patterns.h"

/// All inputs are in shared memory: everybody reduces its block straight from them, in the order of ranks.
///
///   rank 0   reduce 0 of all inputs -> out | signal 0, wait all
///
/// Outputs may be anywhere. Nobody leaves before all have signalled: until then they may read its input.
///
/// Source: folklore. Phases: 1. From others' buffers: (n-1)/n S a rank.
namespace unisono::plan::reduce_scatter {

Plan shared(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::reduce_scatter, "shared", shape);
  if (n == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
    return std::move(b).build();
  }
  share_all(b, kExposesIn);
  std::vector<Ref> inputs;
  for (std::int32_t q = 0; q < n; q++) inputs.push_back(b.in_of(q, r));
  b.reduce({PlanBuilder::out(0)}, inputs, true);
  b.signal(0);
  wait_for_others(b, 0);
  return std::move(b).build();
}

Cost shared_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {1, 1.0 * (shape.ranks - 1) / shape.ranks};
}

}  // namespace unisono::plan::reduce_scatter

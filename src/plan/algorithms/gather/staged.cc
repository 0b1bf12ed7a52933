#include "plan/patterns.h"

/// All ranks share memory: everybody but the root stages its block, the root fetches each as soon as it is there.
///
///   others   put | signal 0
///   root     signal 0 | copy own | wait 1, get 1 | wait 2, get 2
///
/// Source: folklore. Phases: 1. From stages: (n-1)/n S at the root.
namespace unisono::plan::gather {

Plan staged(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::gather, "staged", shape);
  const bool at_root = r == shape.root;
  if (n > 1) {
    b.stage_extents({r});
    if (!at_root) b.put(0, PlanBuilder::in(0));
    b.signal(0);
  }
  if (!at_root) return std::move(b).build();
  b.copy(PlanBuilder::out(r), PlanBuilder::in(0));
  for (std::int32_t i = 1; i < n; i++) {
    const std::int32_t q = (r + i) % n;
    b.wait(q, 0);
    b.get(PlanBuilder::out(q), q, 0);
  }
  return std::move(b).build();
}

Cost staged_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {1, 1.0 * (shape.ranks - 1) / shape.ranks};
}

}  // namespace unisono::plan::gather

#include "plan/patterns.h"

/// All ranks share memory: the root stages all blocks but its own, everybody fetches its own.
///
///   root     put 1 2 3 | signal 0 | copy own
///   others   signal 0 | wait root | get
///
/// Source: folklore. Phases: 1. To stages: (n-1)/n S at the root.
namespace unisono::plan::scatter {

Plan staged(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank, root = shape.root;
  PlanBuilder b(Collective::scatter, "staged", shape);
  const bool at_root = r == root;
  if (n > 1) {
    b.stage_extents(all_ranks_but(n, root));
    for (std::int32_t q = 0; at_root && q < n; q++) {
      if (q != root) b.put(place_without_own(q, root), PlanBuilder::in(q));
    }
    b.signal(0);
  }
  if (at_root) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(r));
  } else {
    b.wait(root, 0);
    b.get(PlanBuilder::out(0), root, place_without_own(r, root));
  }
  return std::move(b).build();
}

Cost staged_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {1, 1.0 * (shape.ranks - 1) / shape.ranks};
}

}  // namespace unisono::plan::scatter

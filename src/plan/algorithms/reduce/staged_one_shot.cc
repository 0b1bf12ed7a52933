#include "plan/patterns.h"

/// All ranks share memory. All others stage their whole input, the root reduces them all.
///
///   others   put | signal 0
///   root     signal 0 (which nobody needs) | wait for all | reduce own + all stages -> out
///
/// One phase only, and nobody but the root waits for anybody: what staged wins by sharing the sums among the ranks it pays for with
/// a second phase. The root adds in the order of ranks, as everywhere.
///
/// Source: folklore. Phases: 1. From stages: (n-1) S at the root.
namespace unisono::plan::reduce {

Plan staged_one_shot(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::reduce, "staged_one_shot", shape);
  if (n == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
    return std::move(b).build();
  }
  b.stage_extents({0});
  const bool at_root = r == shape.root;
  if (!at_root) b.put(0, PlanBuilder::in(0));
  b.signal(0);
  if (!at_root) return std::move(b).build();
  std::vector<Ref> sources;
  for (std::int32_t q = 0; q < n; q++) {
    if (q != r) b.wait(q, 0);
    sources.push_back(q == r ? PlanBuilder::in(0) : PlanBuilder::stage(q, 0));
  }
  b.reduce({PlanBuilder::out(0)}, sources, true);
  return std::move(b).build();
}

Cost staged_one_shot_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {1, 1.0 * (shape.ranks - 1)};
}

}  // namespace unisono::plan::reduce

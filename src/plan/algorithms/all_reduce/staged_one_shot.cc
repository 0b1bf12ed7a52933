#include "plan/patterns.h"

/// All ranks share memory. Every rank stages its whole input; then every rank reduces all of them for itself.
///
///   rank 0   put | signal 0 | wait 1 2 | reduce own + stage 1 + stage 2 -> out
///   rank 1   put | signal 0 | wait 0 2 | reduce stage 0 + own + stage 2 -> out
///   rank 2   put | signal 0 | wait 0 1 | reduce stage 0 + stage 1 + own -> out
///
/// One phase only, so it is the fastest for small vectors; the reduction is done n times over. All ranks reduce in the
/// order of ranks (never from themselves on): the same bits everywhere.
///
/// Source: folklore. Phases: 1. From and to stages: n S a rank.
namespace unisono::plan::all_reduce {

Plan staged_one_shot(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::all_reduce, "staged_one_shot", shape);
  if (n == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
    return std::move(b).build();
  }
  b.stage_extents({0});
  b.put(0, PlanBuilder::in(0));
  b.signal(0);
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
  return {1, 1.0 * shape.ranks};
}

}  // namespace unisono::plan::all_reduce

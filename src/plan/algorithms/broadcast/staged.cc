#include "plan/patterns.h"

/// All ranks share memory: the root stages its data once, everybody else fetches it.
///
///   root     put | signal 0 | copy in -> out
///   others   signal 0 | wait root | get -> out
///
/// With slices the readers follow the writer closely, and the stage stays in cache.
///
/// Source: folklore. Phases: 1. To or from stages: S a rank.
namespace unisono::plan::broadcast {

Plan staged(const Shape& shape) {
  PlanBuilder b(Collective::broadcast, "staged", shape);
  const bool at_root = shape.rank == shape.root;
  if (shape.ranks > 1) {
    b.stage_extents({0});
    if (at_root) b.put(0, PlanBuilder::in(0));
    b.signal(0);
    if (!at_root) {
      b.wait(shape.root, 0);
      b.get(PlanBuilder::out(0), shape.root, 0);
    }
  }
  if (at_root) b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
  return std::move(b).build();
}

Cost staged_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {1, 1};
}

}  // namespace unisono::plan::broadcast

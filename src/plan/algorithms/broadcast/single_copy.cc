#include "plan/patterns.h"

/// Everybody else copies from the root's input, wherever that is (patterns.h, single_copy_of, says when that wins).
///
///   root     signal 0 | copy in -> out | wait all
///   others   get from the root -> out | signal 0
///
/// The root leaves when all have read; the others need not wait for each other.
///
/// Source: folklore; through the kernel: Jin, Sur, Chai, Panda 2005 (LiMIC). Phases: 1. From the root's buffer: S a rank.
namespace unisono::plan::broadcast {

Plan single_copy(const Shape& shape) {
  PlanBuilder b(Collective::broadcast, "single_copy", shape);
  const bool at_root = shape.rank == shape.root;
  if (shape.ranks == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
    return std::move(b).build();
  }
  share_root(b, kExposesIn);
  if (!at_root) b.get(PlanBuilder::out(0), b.in_of(shape.root, 0));
  b.signal(0);
  if (at_root) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
    wait_for_others(b, 0);
  }
  return std::move(b).build();
}

Cost single_copy_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {1, 1};
}

}  // namespace unisono::plan::broadcast

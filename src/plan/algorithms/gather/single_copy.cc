#include "plan/patterns.h"

/// The root reads everybody's input, wherever it lies (single_copy_of says how).
///
///   root     get from all, copy own | signal 0
///   others   signal 0 (which nobody needs) | wait for the root
///
/// The root's core copies every block, as it does from stages, but nobody has to put it there first.
///
/// Source: folklore; through the kernel: Jin, Sur, Chai, Panda 2005 (LiMIC). Phases: 1. From others' buffers: (n-1)/n S at
/// the root.
namespace unisono::plan::gather {

Plan single_copy(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::gather, "single_copy", shape);
  const bool at_root = r == shape.root;
  if (n > 1) share_all_but_root(b, kExposesIn);
  if (at_root) {
    for (std::int32_t i = 1; i < n; i++) {
      const std::int32_t q = b.around(r - i);
      b.get(PlanBuilder::out(q), b.in_of(q, 0));
    }
    b.copy(PlanBuilder::out(r), PlanBuilder::in(0));
  }
  if (n > 1) b.signal(0);
  if (!at_root) b.wait(shape.root, 0);
  return std::move(b).build();
}

Cost single_copy_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {1, 1.0 * (shape.ranks - 1) / shape.ranks};
}

}  // namespace unisono::plan::gather

#include "plan/patterns.h"

/// The root's output is in shared memory: everybody writes its block straight to it, so that all cores copy and not the
/// root's alone.
///
///   root     signal 0 | copy own | wait all
///   others   put to the root | signal 0
///
/// Inputs may be anywhere; of those that the root can reach it copies a part itself, as it has nothing to do in place but to wait.
/// Nobody but the root waits for anybody.
///
/// Source: folklore. Phases: 1. To the root's buffer: 1/n S a rank.
namespace unisono::plan::gather {

Plan shared(const Shape& shape) {
  const std::int32_t r = shape.rank;
  PlanBuilder b(Collective::gather, "shared", shape);
  const bool at_root = r == shape.root;
  if (shape.ranks > 1) share_root(b, kExposesOut), b.help();
  if (!at_root) b.put(b.out_of(shape.root, r), PlanBuilder::in(0));
  if (shape.ranks > 1) b.signal(0);
  if (at_root) {
    b.copy(PlanBuilder::out(r), PlanBuilder::in(0));
    wait_for_others(b, 0);
  }
  return std::move(b).build();
}

Cost shared_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {1, 1.0 / shape.ranks};
}

}  // namespace unisono::plan::gather

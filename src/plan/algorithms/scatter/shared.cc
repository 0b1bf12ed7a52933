#include "plan/patterns.h"

/// The root's input is in shared memory: everybody copies its block straight from there.
///
///   root     signal 0 | copy own | wait all
///   others   get from the root | signal 0
///
/// Outputs may be anywhere; to those that the root can reach it copies a part itself, as it has nothing to do in place but to wait.
/// It leaves when all have read.
///
/// Source: folklore. Phases: 1. From the root's buffer: 1/n S a rank.
namespace unisono::plan::scatter {

Plan shared(const Shape& shape) {
  const std::int32_t r = shape.rank;
  PlanBuilder b(Collective::scatter, "shared", shape);
  const bool at_root = r == shape.root;
  if (shape.ranks > 1) share_root(b, kExposesIn), b.help();
  if (!at_root) b.get(PlanBuilder::out(0), b.in_of(shape.root, r));
  if (shape.ranks > 1) b.signal(0);
  if (at_root) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(r));
    wait_for_others(b, 0);
  }
  return std::move(b).build();
}

Cost shared_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {1, 1.0 / shape.ranks};
}

}  // namespace unisono::plan::scatter

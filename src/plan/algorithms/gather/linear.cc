#include "plan/patterns.h"

/// Everybody sends its block straight to the root.
///
///   1 2 3 -> 0
///
/// Source: folklore. Steps: n-1 (all messages may be in flight together). Bytes: S/n a rank.
namespace unisono::plan::gather {

Plan linear(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::gather, "linear", shape);
  if (r != shape.root) {
    b.send(shape.root, PlanBuilder::in(0));
    return std::move(b).build();
  }
  for (std::int32_t i = 1; i < n; i++) b.recv((r + i) % n, PlanBuilder::out((r + i) % n));
  b.copy(PlanBuilder::out(r), PlanBuilder::in(0));
  return std::move(b).build();
}

Cost linear_cost(const Shape& shape) { return {shape.ranks - 1, shape.ranks == 1 ? 0.0 : 1.0 / shape.ranks}; }

}  // namespace unisono::plan::gather

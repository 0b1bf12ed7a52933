#include "plan/patterns.h"

/// The root sends everybody its block.
///
///   0 -> 1 2 3
///
/// Source: folklore. Steps: n-1. Bytes: (n-1)/n S at the root.
namespace unisono::plan::scatter {

Plan linear(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::scatter, "linear", shape);
  if (r != shape.root) {
    b.recv(shape.root, PlanBuilder::out(0));
    return std::move(b).build();
  }
  for (std::int32_t i = 1; i < n; i++) b.send((r + i) % n, PlanBuilder::in((r + i) % n));
  b.copy(PlanBuilder::out(0), PlanBuilder::in(r));
  return std::move(b).build();
}

Cost linear_cost(const Shape& shape) { return {shape.ranks - 1, 1.0 * (shape.ranks - 1) / shape.ranks}; }

}  // namespace unisono::plan::scatter

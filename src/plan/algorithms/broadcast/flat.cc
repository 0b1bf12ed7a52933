#include "plan/patterns.h"

/// The root sends to everybody. The plainest, and good for two or three ranks.
///
///   0 -> 1, 0 -> 2, 0 -> 3
///
/// Source: folklore. Steps: n-1. Bytes: (n-1) S at the root.
namespace unisono::plan::broadcast {

Plan flat(const Shape& shape) {
  PlanBuilder b(Collective::broadcast, "flat", shape);
  if (shape.rank != shape.root) {
    b.recv(shape.root, PlanBuilder::out(0));
    return std::move(b).build();
  }
  for (std::int32_t i = 1; i < shape.ranks; i++) b.send((shape.rank + i) % shape.ranks, PlanBuilder::in(0));
  b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
  return std::move(b).build();
}

Cost flat_cost(const Shape& shape) { return {shape.ranks - 1, 1.0 * (shape.ranks - 1)}; }

}  // namespace unisono::plan::broadcast

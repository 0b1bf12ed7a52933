#include "plan/patterns.h"

/// In round i every rank sends to the rank i ahead and receives from the rank i behind.
///
///   n = 4     round 1: r -> r+1      round 2: r -> r+2      round 3: r -> r+3
///
/// Nobody is the target of two ranks at once. Four rounds may overlap, which hides latency and yet keeps the number of
/// busy connections small.
///
/// Source: folklore. Steps: n-1. Bytes: (n-1)/n S a rank.
namespace unisono::plan::all_to_all {

Plan pairwise(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::all_to_all, "pairwise", shape);
  b.limit_lanes(4);
  for (std::int32_t i = 1; i < n; i++) {
    b.send((r + i) % n, PlanBuilder::in((r + i) % n));
    b.recv(b.around(r - i), PlanBuilder::out(b.around(r - i)));
  }
  b.copy(PlanBuilder::out(r), PlanBuilder::in(r));
  return std::move(b).build();
}

Cost pairwise_cost(const Shape& shape) { return {shape.ranks - 1, 1.0 * (shape.ranks - 1) / shape.ranks}; }

}  // namespace unisono::plan::all_to_all

#include "plan/patterns.h"

/// Every rank sends its block to every other rank.
///
///   0 -> 1 2 3     1 -> 2 3 0     2 -> 3 0 1     3 -> 0 1 2
///
/// Nothing is forwarded; every pair of ranks has a connection.
///
/// Source: folklore. Steps: n-1 (all messages may be in flight together). Bytes: (n-1)/n S a rank.
namespace unisono::plan::all_gather {

Plan direct(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::all_gather, "direct", shape);
  for (std::int32_t i = 1; i < n; i++) {
    b.send((r + i) % n, PlanBuilder::in(0));
    b.recv(b.around(r - i), PlanBuilder::out(b.around(r - i)));
  }
  b.copy(PlanBuilder::out(r), PlanBuilder::in(0));
  return std::move(b).build();
}

Cost direct_cost(const Shape& shape) { return {shape.ranks - 1, 1.0 * (shape.ranks - 1) / shape.ranks}; }

}  // namespace unisono::plan::all_gather

#include "plan/patterns.h"

/// Every rank sends each block straight to its owner, who adds all of them in one pass, in the order of ranks.
///
///   0 -> 1 2 3     1 -> 2 3 0     2 -> 3 0 1     3 -> 0 1 2
///
/// One dependency deep and one reduction pass; every pair of ranks has a connection.
///
/// Source: folklore. Steps: n-1 (all messages may be in flight together). Bytes: (n-1)/n S a rank.
namespace unisono::plan::reduce_scatter {

Plan direct(const Shape& shape) {
  PlanBuilder b(Collective::reduce_scatter, "direct", shape);
  if (shape.ranks == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
    return std::move(b).build();
  }
  direct_reduce_scatter(b, PlanBuilder::out(0));
  return std::move(b).build();
}

Cost direct_cost(const Shape& shape) { return {shape.ranks - 1, 1.0 * (shape.ranks - 1) / shape.ranks}; }

}  // namespace unisono::plan::reduce_scatter

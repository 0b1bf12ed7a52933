#include "plan/patterns.h"

/// The vector in n blocks. Every rank sends each block straight to its owner, who adds all of them in one pass, in the order
/// of ranks, and sends the sum to the root.
///
///   0 -> 1 2 3     1 -> 2 3 0     2 -> 3 0 1     3 -> 0 1 2          then     1 2 3 -> 0
///
/// As all_reduce's direct: the same left fold for every element, whatever the size.
///
/// Source: folklore. Steps: 2 (n-1). Bytes: S a rank.
namespace unisono::plan::reduce {

Plan direct(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::reduce, "direct", shape, n);
  if (n == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
    return std::move(b).build();
  }
  const bool at_root = r == shape.root;
  const Ref complete = at_root ? PlanBuilder::out(r) : b.new_scratch(r);
  direct_reduce_scatter(b, complete);
  if (!at_root) {
    b.send(shape.root, complete);
    return std::move(b).build();
  }
  for (std::int32_t i = 1; i < n; i++) b.recv((r + i) % n, PlanBuilder::out((r + i) % n));
  return std::move(b).build();
}

Cost direct_cost(const Shape& shape) { return {2 * (shape.ranks - 1), shape.ranks == 1 ? 0.0 : 1.0}; }

}  // namespace unisono::plan::reduce

#include "plan/patterns.h"

/// The vector in n blocks. Every rank sends each block straight to its owner, who adds all of them in one pass, in the order
/// of ranks, and sends the sum to everybody.
///
///   0 -> 1 2 3     1 -> 2 3 0     2 -> 3 0 1     3 -> 0 1 2          twice: parts, then sums
///
/// Ring's bytes. Every element is the same left fold over the ranks whatever its position, the size of the vector, or the place
/// (the staged algorithms fold alike): what UNISONO_DETERMINISTIC asks for. Every pair of ranks has a connection.
///
/// Source: folklore. Steps: 2 (n-1), of which n-1 may be in flight together. Bytes: 2 (n-1)/n S a rank.
namespace unisono::plan::all_reduce {

Plan direct(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::all_reduce, "direct", shape, n);
  if (n == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
    return std::move(b).build();
  }
  direct_reduce_scatter(b, PlanBuilder::out(r));
  for (std::int32_t i = 1; i < n; i++) {
    b.send((r + i) % n, PlanBuilder::out(r));
    b.recv(b.around(r - i), PlanBuilder::out(b.around(r - i)));
  }
  return std::move(b).build();
}

Cost direct_cost(const Shape& shape) { return {2 * (shape.ranks - 1), 2.0 * (shape.ranks - 1) / shape.ranks}; }

}  // namespace unisono::plan::all_reduce

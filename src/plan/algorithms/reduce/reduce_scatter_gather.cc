#include "plan/patterns.h"

/// The vector in n blocks: a circulant reduce-scatter completes block b at rank b, and everybody sends its block to the
/// root.
///
///   circulant rounds, as in reduce_scatter          then          1 2 3 -> 0
///
/// All ranks share the additions, and nobody sends more than S: for large vectors.
///
/// Source: Rabenseifner 2004, with Träff's reduce-scatter. Steps: ceil(log2 n) + n-1. Bytes: S a rank.
namespace unisono::plan::reduce {

Plan reduce_scatter_gather(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::reduce, "reduce_scatter_gather", shape, n);
  if (n == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
    return std::move(b).build();
  }
  const bool at_root = r == shape.root;
  const Ref complete = at_root ? PlanBuilder::out(r) : b.new_scratch(r);
  circulant_reduce_scatter(b, {complete});
  if (!at_root) {
    b.send(shape.root, complete);
    return std::move(b).build();
  }
  for (std::int32_t i = 1; i < n; i++) b.recv((r + i) % n, PlanBuilder::out((r + i) % n));
  return std::move(b).build();
}

Cost reduce_scatter_gather_cost(const Shape& shape) {
  return {ceil_log2(shape.ranks) + shape.ranks - 1, shape.ranks == 1 ? 0.0 : 1.0};
}

}  // namespace unisono::plan::reduce

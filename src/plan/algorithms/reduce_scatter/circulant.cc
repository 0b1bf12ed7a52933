#include "plan/patterns.h"

/// In each round a rank sends the partial sums of all blocks in the far half of what it is still responsible for to the
/// rank that many places ahead, and adds what it gets to the near half.
///
///   n = 5, strides 3 2 1; rank r is responsible for blocks r .. r+4 at first
///   round 1   blocks r+3 r+4 to rank r+3      leaves r .. r+2
///   round 2   block  r+2     to rank r+2      leaves r .. r+1
///   round 3   block  r+1     to rank r+1      leaves r, complete
///
/// Any n without folding, in as few rounds and bytes as can be.
///
/// Source: Träff, arXiv 2410.14234. Steps: ceil(log2 n). Bytes: (n-1)/n S a rank.
namespace unisono::plan::reduce_scatter {

Plan circulant(const Shape& shape) {
  PlanBuilder b(Collective::reduce_scatter, "circulant", shape);
  if (shape.ranks == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
  } else {
    circulant_reduce_scatter(b, {PlanBuilder::out(0)});
  }
  return std::move(b).build();
}

Cost circulant_cost(const Shape& shape) { return {ceil_log2(shape.ranks), 1.0 * (shape.ranks - 1) / shape.ranks}; }

}  // namespace unisono::plan::reduce_scatter

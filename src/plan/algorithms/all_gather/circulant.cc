#include "plan/patterns.h"

/// What a rank has (blocks r, r+1, ...) nearly doubles in each round: it gets the blocks behind them from the rank that
/// many places ahead. The strides of the circulant reduce-scatter, backwards.
///
///   n = 5, strides 1 2 3: rank r has
///   r | r+1  from r+1 | r+2  from r+2 | r+3 r+4  from r+3
///
/// Any n, straight into place: no rotation at the end.
///
/// Source: Bruck et al. 1997; strides as in Träff, arXiv 2410.14234. Steps: ceil(log2 n). Bytes: (n-1)/n S a rank.
namespace unisono::plan::all_gather {

Plan circulant(const Shape& shape) {
  PlanBuilder b(Collective::all_gather, "circulant", shape);
  b.copy(PlanBuilder::out(shape.rank), PlanBuilder::in(0));
  circulant_all_gather(b, PlanBuilder::in(0));
  return std::move(b).build();
}

Cost circulant_cost(const Shape& shape) { return {ceil_log2(shape.ranks), 1.0 * (shape.ranks - 1) / shape.ranks}; }

}  // namespace unisono::plan::all_gather

#include "plan/patterns.h"

/// A reduce-scatter and then an all-gather, both in ceil(log2 n) rounds for any n, without folding. In each round a
/// rank sends all blocks in the far half of what it is still responsible for to the rank that many places ahead:
///
///   n = 5, strides 3 2 1; rank r is responsible for blocks r .. r+4 at first
///   round 1   blocks r+3 r+4 to rank r+3      leaves r .. r+2
///   round 2   block  r+2     to rank r+2      leaves r .. r+1
///   round 3   block  r+1     to rank r+1      leaves r, complete
///
/// and the all-gather is the same picture backwards. Ring's bytes with recursive doubling's rounds.
///
/// Source: Träff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", arXiv 2410.14234.
/// Steps: 2 ceil(log2 n). Bytes: 2 (n-1)/n S a rank.
namespace unisono::plan::all_reduce {

Plan circulant(const Shape& shape) {
  PlanBuilder b(Collective::all_reduce, "circulant", shape, shape.ranks);
  if (shape.ranks == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
  } else {
    circulant_reduce_scatter(b, {PlanBuilder::out(shape.rank)});
    circulant_all_gather(b, PlanBuilder::out(shape.rank));
  }
  return std::move(b).build();
}

Cost circulant_cost(const Shape& shape) { return {2 * ceil_log2(shape.ranks), 2.0 * (shape.ranks - 1) / shape.ranks}; }

}  // namespace unisono::plan::all_reduce

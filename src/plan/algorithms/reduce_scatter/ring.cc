#include "plan/patterns.h"

/// Block b starts at rank b+1 and collects one rank's contribution at each stop of the ring, until it is complete at
/// rank b. The first half of the ring all-reduce.
///
///   step        rank 0         rank 1         rank 2
///   1   sends   block 2 ->     block 0 ->     block 1 ->
///   2   sends   block 1+ ->    block 2+ ->    block 0+ ->      now rank b has all of block b
///
/// Source: Patarasuk and Yuan, 2009. Steps: n-1. Bytes: (n-1)/n S a rank.
namespace unisono::plan::reduce_scatter {

Plan ring(const Shape& shape) {
  PlanBuilder b(Collective::reduce_scatter, "ring", shape);
  if (shape.ranks == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
  } else {
    ring_reduce_scatter(b, {PlanBuilder::out(0)});
  }
  return std::move(b).build();
}

Cost ring_cost(const Shape& shape) { return {shape.ranks - 1, 1.0 * (shape.ranks - 1) / shape.ranks}; }

}  // namespace unisono::plan::reduce_scatter

#include "plan/patterns.h"

/// Ranks in a ring, the vector in n blocks. In the first turn block b starts at rank b+1 and collects one rank's
/// contribution at each stop, until it is complete at rank b; in the second turn the complete blocks go round.
///
///   step        rank 0         rank 1         rank 2
///   1   sends   block 2 ->     block 0 ->     block 1 ->
///   2   sends   block 1+ ->    block 2+ ->    block 0+ ->      now rank b has all of block b
///   3   sends   block 0 ->     block 1 ->     block 2 ->
///   4   sends   block 2 ->     block 0 ->     block 1 ->
///
/// Only neighbours talk, every link is busy all the time and no rank sends more than it must: the best for large
/// vectors; the latency grows with n. Partial sums are reduced where they arrive, so the output is written once a
/// block.
///
/// Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009.
/// Steps: 2 (n-1). Bytes: 2 (n-1)/n S a rank.
namespace unisono::plan::all_reduce {

Plan ring(const Shape& shape) {
  PlanBuilder b(Collective::all_reduce, "ring", shape, shape.ranks);
  if (shape.ranks == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
  } else {
    ring_reduce_scatter(b, {PlanBuilder::out(shape.rank)});
    ring_all_gather(b, PlanBuilder::out(shape.rank));
  }
  return std::move(b).build();
}

Cost ring_cost(const Shape& shape) { return {2 * (shape.ranks - 1), 2.0 * (shape.ranks - 1) / shape.ranks}; }

}  // namespace unisono::plan::all_reduce

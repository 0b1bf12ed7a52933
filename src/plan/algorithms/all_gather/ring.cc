#include "plan/patterns.h"

/// Every block goes once round the ring.
///
///   step        rank 0         rank 1         rank 2
///   1   sends   block 0 ->     block 1 ->     block 2 ->
///   2   sends   block 2 ->     block 0 ->     block 1 ->
///
/// Only neighbours talk. Best for large blocks.
///
/// Source: folklore. Steps: n-1. Bytes: (n-1)/n S a rank.
namespace unisono::plan::all_gather {

Plan ring(const Shape& shape) {
  PlanBuilder b(Collective::all_gather, "ring", shape);
  b.copy(PlanBuilder::out(shape.rank), PlanBuilder::in(0));
  ring_all_gather(b, PlanBuilder::in(0));
  return std::move(b).build();
}

Cost ring_cost(const Shape& shape) { return {shape.ranks - 1, 1.0 * (shape.ranks - 1) / shape.ranks}; }

}  // namespace unisono::plan::all_gather

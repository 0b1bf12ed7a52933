#include "plan/patterns.h"

/// Everybody passes the data on to the next rank.
///
///   0 -> 1 -> 2 -> 3        (positions counted from the root)
///
/// The engine cuts large data into slices, and the chain becomes a pipeline: all links are busy, every rank sends the
/// data once, and the time hardly depends on n. Best for large data and few ranks.
///
/// Source: folklore ("pipelined chain"). Steps: n-1. Bytes: S a rank.
namespace unisono::plan::broadcast {

Plan chain(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::broadcast, "chain", shape);
  const bool at_root = r == shape.root;
  const std::int32_t next = (r + 1) % n;
  if (!at_root) b.recv(b.around(r - 1), PlanBuilder::out(0));
  if (next != shape.root) b.send(next, at_root ? PlanBuilder::in(0) : PlanBuilder::out(0));
  if (at_root) b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
  return std::move(b).build();
}

Cost chain_cost(const Shape& shape) { return {shape.ranks - 1, shape.ranks == 1 ? 0.0 : 1.0}; }

}  // namespace unisono::plan::broadcast

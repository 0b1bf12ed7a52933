#include "plan/patterns.h"

/// In round i every rank tells the rank 2^i ahead all that it has heard so far: that 2^i ranks (itself included) have
/// come.
///
///   n = 5     round 1: r -> r+1      round 2: r -> r+2      round 3: r -> r+4
///
/// A round's message is sent after the message of the round before has come; messages are empty.
///
/// Source: Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", 1988. Steps: ceil(log2 n).
namespace unisono::plan::barrier {

Plan dissemination(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::barrier, "dissemination", shape);
  std::vector<StepId> heard;
  for (std::int32_t stride = 1; stride < n; stride *= 2) {
    b.send((r + stride) % n, {});
    for (const StepId earlier : heard) b.after(earlier);
    heard.push_back(b.recv(b.around(r - stride), {}));
  }
  return std::move(b).build();
}

Cost dissemination_cost(const Shape& shape) { return {ceil_log2(shape.ranks), 0}; }

}  // namespace unisono::plan::barrier

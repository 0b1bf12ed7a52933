#include "plan/patterns.h"

/// Everybody tells rank 0 that it has come; when all have, rank 0 tells everybody. The plainest; 2 (n-1) empty
/// messages.
///
///   1 2 3 -> 0        then        0 -> 1 2 3
///
/// Source: folklore. Steps: 2 (n-1).
namespace unisono::plan::barrier {

Plan flat(const Shape& shape) {
  PlanBuilder b(Collective::barrier, "flat", shape);
  b.limit_lanes(1);  // then the last message of a direction stands for all
  if (shape.rank != 0) {
    const StepId told = b.send(0, {});
    b.recv(0, {});
    b.after(told);
    return std::move(b).build();
  }
  StepId heard = 0;
  for (std::int32_t q = 1; q < shape.ranks; q++) heard = b.recv(q, {});
  for (std::int32_t q = 1; q < shape.ranks; q++) {
    b.send(q, {});
    b.after(heard);
  }
  return std::move(b).build();
}

Cost flat_cost(const Shape& shape) { return {2 * (shape.ranks - 1), 0}; }

}  // namespace unisono::plan::barrier

#include "plan/patterns.h"

/// All ranks share memory: everybody raises its own flag and looks at all others.
///
///   rank r   signal 0 | wait for every other rank
///
/// One store and n-1 loads a rank, each flag with a single writer.
///
/// Source: folklore. Phases: 1.
namespace unisono::plan::barrier {

Plan staged(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::barrier, "staged", shape);
  if (n == 1) return std::move(b).build();
  b.signal(0);
  for (std::int32_t i = 1; i < n; i++) b.wait((r + i) % n, 0);
  return std::move(b).build();
}

Cost staged_cost(const Shape& shape) { return {shape.ranks == 1 ? 0 : 1, 0}; }

}  // namespace unisono::plan::barrier

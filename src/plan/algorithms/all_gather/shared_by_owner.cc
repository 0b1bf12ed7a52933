#include "plan/host_map.h"
#include "plan/patterns.h"

/// All outputs are in shared memory: everybody copies its own block to all of them, so that it is read from memory once, however many ranks there are
/// (the engine does copies from the same place together, piece by piece). In place the own output has it already, and that copy is none. Each begins
/// with the next rank's output, so that not all write to the same one at once.
///
///   rank 0   copy own to the outputs of 0, 1, 2 | signal 0, wait all
///   rank 1   copy own to the outputs of 1, 2, 0 | signal 0, wait all
///   rank 2   copy own to the outputs of 2, 0, 1 | signal 0, wait all
///
/// Inputs may be anywhere. Nobody leaves before all have signalled: until then they may write to its output.
///
/// Source: folklore. Phases: 1. To others' buffers: (n-1)/n S a rank.
namespace unisono::plan::all_gather {

Plan shared_by_owner(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::all_gather, "shared_by_owner", shape);
  if (n > 1) share_all(b, kExposesOut);
  b.copy(PlanBuilder::out(r), PlanBuilder::in(0));
  if (n == 1) return std::move(b).build();
  for (const std::int32_t q : nearest_first(shape)) b.put(b.out_of(q, r), PlanBuilder::in(0));
  b.signal(0);
  wait_for_others(b, 0);
  return std::move(b).build();
}

Cost shared_by_owner_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {1, 1.0 * (shape.ranks - 1) / shape.ranks};
}

}  // namespace unisono::plan::all_gather

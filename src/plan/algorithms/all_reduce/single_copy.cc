#include "plan/host_map.h"
#include "plan/patterns.h"

/// The ranks read each other's memory through the kernel, wherever it lies. Rank b owns block b.
///
///   rank 0   reduce 0 of all inputs -> out | signal 0 | wait 1, get 1 from 1's out | wait 2, get 2 from 2's out | signal 1, wait all
///
/// Two shots like staged_two_shot, but every byte is copied once on its way and not twice, and no line is handed to and fro between the
/// caches of two cores. Nobody writes to another's memory: whoever fails may have its buffers back at once. Right in place, too: block q of
/// a rank is read by q alone, before it signals.
///
/// Source: folklore; through the kernel: Jin, Sur, Chai, Panda 2005 (LiMIC). Phases: 2. From others' buffers: 2 (n-1)/n S a rank.
namespace unisono::plan::all_reduce {

Plan single_copy(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::all_reduce, "single_copy", shape, n);
  if (n == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
    return std::move(b).build();
  }
  share_all(b, kExposesIn | kExposesOut);
  std::vector<Ref> inputs;
  for (std::int32_t q = 0; q < n; q++) inputs.push_back(b.in_of(q, r));
  b.reduce({PlanBuilder::out(r)}, inputs, true);
  b.signal(0);
  for (const std::int32_t owner : nearest_first(shape)) {
    b.wait(owner, 0);
    b.get(PlanBuilder::out(owner), b.out_of(owner, owner));
  }
  b.signal(1);
  wait_for_others(b, 1);
  return std::move(b).build();
}

Cost single_copy_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {2, 2.0 * (shape.ranks - 1) / shape.ranks};
}

}  // namespace unisono::plan::all_reduce

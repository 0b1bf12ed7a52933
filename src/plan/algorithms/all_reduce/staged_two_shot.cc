#include "plan/host_map.h"
#include "plan/patterns.h"

/// All ranks share memory. Rank b owns block b.
///
///   rank 0   put 1 2 |       signal 0, wait all | reduce 0 -> out, stage | signal 1 | get 1 from 1, 2 from 2
///   rank 1   put 0 2 |       signal 0, wait all | reduce 1 -> out, stage | signal 1 | get 2 from 2, 0 from 0
///   rank 2   put 0 1 |       signal 0, wait all | reduce 2 -> out, stage | signal 1 | get 0 from 0, 1 from 1
///
/// First shot: every rank stages the blocks that others own; the owner reduces straight from all stages and its own
/// input, in the order of ranks. Second shot: the owner writes the sum to its output and, in the same pass, to its own
/// stage, from where the others fetch it. A stage has one place for each block: the owner's place is free for the sum.
///
/// Source: "two-shot" is folklore (DeepSpeed's shm all-reduce is one); that the owner stages nothing is ours.
/// Phases: 2. From and to stages: 3 (n-1)/n S a rank; loads and stores together (5 - 2/n) S.
namespace unisono::plan::all_reduce {

Plan staged_two_shot(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::all_reduce, "staged_two_shot", shape, n);
  if (n == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
    return std::move(b).build();
  }
  std::vector<std::int32_t> extents;
  std::vector<Ref> partials;
  for (std::int32_t q = 0; q < n; q++) {
    extents.push_back(q);
    partials.push_back(q == r ? PlanBuilder::in(r) : PlanBuilder::stage(q, r));
  }
  b.stage_extents(extents);

  for (std::int32_t i = 1; i < n; i++) b.put((r + i) % n, PlanBuilder::in((r + i) % n));
  b.signal(0);
  for (std::int32_t i = 1; i < n; i++) b.wait(b.around(r - i), 0);
  b.reduce({PlanBuilder::out(r), PlanBuilder::stage(r, r)}, partials, true);
  b.signal(1);
  for (const std::int32_t owner : nearest_first(shape)) {
    b.wait(owner, 1);
    b.get(PlanBuilder::out(owner), owner, owner);
  }
  return std::move(b).build();
}

Cost staged_two_shot_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {2, 3.0 * (shape.ranks - 1) / shape.ranks};
}

}  // namespace unisono::plan::all_reduce

#include "plan/patterns.h"

/// All ranks share memory. Rank b owns block b.
///
///   rank 0   put 1 2 |       signal 0, wait all | reduce 0 -> out, stages of 1 2 | signal 1 | get 1 2 from the own stage
///   rank 1   put 0 2 |       signal 0, wait all | reduce 1 -> out, stages of 0 2 | signal 1 | get 2 0 from the own stage
///   rank 2   put 0 1 |       signal 0, wait all | reduce 2 -> out, stages of 0 1 | signal 1 | get 0 1 from the own stage
///
/// First shot: as in staged_two_shot. Second shot: the owner writes the sum over the operands, on the stages where it has just
/// read them, and every rank finds the sums on its own stage, where its operands lay. So a line goes to and fro between
/// two caches, and each time the one that writes it has just read it. In staged_two_shot every line is read by one core
/// and written by another one, which has last seen it a turn around the stage ago. The own block's place stays empty: that is where
/// processors fetch ahead past the end of a block.
///
/// Source: ours; for memory that moves between two writers see "migratory sharing", Gupta, Weber 1992.
/// Phases: 2. From and to stages: 4 (n-1)/n S a rank; loads and stores together 6 (n-1)/n S and the owner's 2/n S.
namespace unisono::plan::all_reduce {

Plan staged_return(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::all_reduce, "staged_return", shape, n);
  if (n == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
    return std::move(b).build();
  }
  std::vector<std::int32_t> extents;
  std::vector<Ref> partials, sums{PlanBuilder::out(r)};
  for (std::int32_t q = 0; q < n; q++) {
    extents.push_back(q);
    partials.push_back(q == r ? PlanBuilder::in(r) : PlanBuilder::stage(q, r));
    if (q != r) sums.push_back(partials.back());
  }
  b.stage_extents(extents);

  for (std::int32_t i = 1; i < n; i++) b.put((r + i) % n, PlanBuilder::in((r + i) % n));
  b.signal(0);
  for (std::int32_t i = 1; i < n; i++) b.wait(b.around(r - i), 0);
  b.reduce_into(sums, partials, true);
  b.signal(1);
  for (const std::int32_t owner : nearest_first(shape)) {
    b.wait(owner, 1);
    b.get(PlanBuilder::out(owner), r, owner);
  }
  return std::move(b).build();
}

Cost staged_return_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {2, 4.0 * (shape.ranks - 1) / shape.ranks};
}

}  // namespace unisono::plan::all_reduce

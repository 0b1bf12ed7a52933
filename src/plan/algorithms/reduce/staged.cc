#include "plan/patterns.h"

/// All ranks share memory, rank b owns block b. As the two-shot all-reduce, but only the root fetches the sums.
///
///   rank 1   put 0 2 | signal 0, wait all | reduce block 1 -> stage       | signal 1
///   root 0   put 1 2 | signal 0, wait all | reduce block 0 -> out         | signal 1 | get 1 from 1, 2 from 2
///
/// Sums go to the owner's stage, in its own block's place: no input is touched.
///
/// Source: folklore. Phases: 2. To and from stages: 3 (n-1)/n S at the root.
namespace unisono::plan::reduce {

Plan staged(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::reduce, "staged", shape, n);
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
  b.reduce({r == shape.root ? PlanBuilder::out(r) : PlanBuilder::stage(r, r)}, partials, true);
  b.signal(1);
  if (r != shape.root) return std::move(b).build();
  for (std::int32_t i = 1; i < n; i++) {
    const std::int32_t owner = (r + i) % n;
    b.wait(owner, 1);
    b.get(PlanBuilder::out(owner), owner, owner);
  }
  return std::move(b).build();
}

Cost staged_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {2, 3.0 * (shape.ranks - 1) / shape.ranks};
}

}  // namespace unisono::plan::reduce

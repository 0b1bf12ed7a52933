#include "plan/patterns.h"

/// The root's input and all outputs are in shared memory. Rank b owns block b: it copies the block from the root's input to everybody's output, so that
/// no core looks on while others copy. (In place the root's output has it already, and that copy is none.)
///
///   root 0   copy 0 to the outputs of 0, 1, 2 | signal 0, wait all
///   rank 1   copy 1 to the outputs of 1, 2, 0 | signal 0, wait all
///   rank 2   copy 2 to the outputs of 2, 0, 1 | signal 0, wait all
///
/// Nobody leaves before all have signalled: until then they may read the root's input, and write to everybody's output.
///
/// Source: folklore. Phases: 1. From and to others' buffers: S a rank.
namespace unisono::plan::broadcast {

Plan shared(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank, root = shape.root;
  PlanBuilder b(Collective::broadcast, "shared", shape, n);
  if (n == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
    return std::move(b).build();
  }
  std::vector<std::uint8_t> exposed(static_cast<std::size_t>(n), kExposesOut);
  exposed[static_cast<std::size_t>(root)] |= kExposesIn;
  b.share(std::move(exposed));
  for (std::int32_t i = 0; i < n; i++) {  // each begins with its own
    const std::int32_t q = b.around(r + i);
    if (q != r)
      b.put(b.out_of(q, r), b.in_of(root, r));
    else if (r == root)
      b.copy(PlanBuilder::out(r), PlanBuilder::in(r));
    else
      b.get(PlanBuilder::out(r), b.in_of(root, r));
  }
  b.signal(0);
  wait_for_others(b, 0);
  return std::move(b).build();
}

Cost shared_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {1, 1};
}

}  // namespace unisono::plan::broadcast

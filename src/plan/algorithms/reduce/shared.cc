#include "plan/patterns.h"

/// All inputs, and the root's output, are in shared memory. Rank b owns block b: it reads the block from everybody's input
/// and writes the sum to the root's output.
///
///   root 0   reduce 0 of all inputs -> out         | signal 0, wait all
///   rank 1   reduce 1 of all inputs -> out of root | signal 0, wait all
///
/// Nobody leaves before all have signalled: until then they may read its input.
///
/// Source: folklore. Phases: 1. From and to others' buffers: S a rank.
namespace unisono::plan::reduce {

Plan shared(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::reduce, "shared", shape, n);
  if (n == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
    return std::move(b).build();
  }
  std::vector<std::uint8_t> exposed(static_cast<std::size_t>(n), kExposesIn);
  exposed[static_cast<std::size_t>(shape.root)] |= kExposesOut;
  b.share(std::move(exposed));
  std::vector<Ref> inputs;
  for (std::int32_t q = 0; q < n; q++) inputs.push_back(b.in_of(q, r));
  b.reduce({b.out_of(shape.root, r)}, inputs, true);
  b.help();
  b.signal(0);
  wait_for_others(b, 0);
  return std::move(b).build();
}

Cost shared_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {1, 1};
}

}  // namespace unisono::plan::reduce

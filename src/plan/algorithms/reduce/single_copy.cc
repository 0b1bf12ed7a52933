#include "plan/patterns.h"

/// The root reads and adds everybody's input, wherever it lies (single_copy_of says how), in the order of ranks.
///
///   root     reduce all inputs -> out | signal 0
///   others   signal 0 (which nobody needs) | wait for the root
///
/// One core does it all: for two ranks, or few.
///
/// Source: folklore; through the kernel: Jin, Sur, Chai, Panda 2005 (LiMIC). Phases: 1. From others' buffers: (n-1) S at the
/// root.
namespace unisono::plan::reduce {

Plan single_copy(const Shape& shape) {
  const std::int32_t n = shape.ranks;
  PlanBuilder b(Collective::reduce, "single_copy", shape);
  if (n == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
    return std::move(b).build();
  }
  share_all_but_root(b, kExposesIn);
  if (shape.rank == shape.root) {
    std::vector<Ref> inputs;
    for (std::int32_t q = 0; q < n; q++) inputs.push_back(b.in_of(q, 0));
    b.reduce({PlanBuilder::out(0)}, inputs, true);
  }
  b.signal(0);
  if (shape.rank != shape.root) b.wait(shape.root, 0);
  return std::move(b).build();
}

Cost single_copy_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {1, 1.0 * (shape.ranks - 1)};
}

}  // namespace unisono::plan::reduce

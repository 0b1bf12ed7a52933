#include "plan/patterns.h"

/// The buffers of all ranks are in shared memory. Rank b owns block b: it reads the block from everybody's input and writes
/// the sum to everybody's output, in one pass.
///
///   rank 0   reduce 0 of all inputs -> all outputs | signal 0, wait all
///   rank 1   reduce 1 of all inputs -> all outputs | signal 0, wait all
///   rank 2   reduce 2 of all inputs -> all outputs | signal 0, wait all
///
/// Every input is read once and every output written once: no collective can move less. Right in place, too: of each block
/// only its owner touches any copy. Nobody leaves before all have signalled: until then they may write to its buffer.
///
/// Source: folklore. Phases: 1. From and to others' buffers: 2 (n-1)/n S a rank; loads and stores together 2 S.
namespace unisono::plan::all_reduce {

Plan shared(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::all_reduce, "shared", shape, n);
  if (n == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
    return std::move(b).build();
  }
  share_all(b, kExposesIn | kExposesOut);
  std::vector<Ref> inputs, outputs;
  for (std::int32_t q = 0; q < n; q++) {
    inputs.push_back(b.in_of(q, r));
    outputs.push_back(b.out_of(q, r));
  }
  b.reduce_into(outputs, inputs, true);
  b.help();
  b.signal(0);
  wait_for_others(b, 0);
  return std::move(b).build();
}

Cost shared_cost(const Shape& shape) {
  if (shape.ranks == 1) return {};
  return {1, 2.0 * (shape.ranks - 1) / shape.ranks};
}

}  // namespace unisono::plan::all_reduce

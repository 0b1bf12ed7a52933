#include "plan/patterns.h"

/// As the shared algorithm, with input buffers anywhere: the ranks read each other's memory through the kernel, so that every byte is copied once
/// and not twice, and no line is handed to and fro between the caches of two cores. It wins where the data lie in memory rather than in caches; a
/// page costs the kernel about as much as its copy.
///
/// Nobody writes to another's memory: whoever fails may have its buffers back at once.
///
/// Source: folklore; through the kernel: Jin, Sur, Chai, Panda 2005 (LiMIC). Phases: 1. From others' buffers: (n-1)/n S a rank.
namespace unisono::plan::all_gather {

Plan shared(const Shape& shape);
Cost shared_cost(const Shape& shape);

Plan single_copy(const Shape& shape) {
  Plan plan = shared(shape);
  plan.algorithm = "single_copy";
  return plan;
}

Cost single_copy_cost(const Shape& shape) { return shared_cost(shape); }

}  // namespace unisono::plan::all_gather

#pragma once
/// Slices in flight, written out: the plan that the engine's slicing amounts to. Pure.

#include <cstdint>
#include <vector>

#include "plan/ir.h"

namespace unisono::plan {

struct Unrolling {
  std::int32_t slices = 3;
  std::int32_t window = 2;
  bool wait_for_done = true;  ///< false leaves out the implicit wait: the verifier must then find races (tests)
};

/// One plan that runs `plan` for each slice. Slice s has input and output blocks of its own and lanes of its own; scratch
/// and stage have `window` copies, slice s using copy s mod window. In front of slice s stands a wait until the slice that
/// used its copy before is done: on this rank, and for staged plans on all ranks. A signal "done" stands behind each slice.
Plan unroll(const Plan& plan, const Unrolling& how);

}  // namespace unisono::plan

#pragma once
/// A plan prepared for running: what can be looked up once instead of at every step. A value, shared by all runs.

#include <cstdint>
#include <vector>

#include "plan/ir.h"

namespace unisono::engine {

struct Compiled {
  plan::Plan plan;
  std::vector<std::vector<std::uint32_t>> lanes;  ///< step indices of each lane, in order
  std::vector<std::uint32_t> ordinals;  ///< for send and recv: which message of its channel between the two ranks
  std::vector<std::int32_t> sends_to;   ///< ranks that this rank sends to, ascending
};

Compiled compile(plan::Plan plan);

}  // namespace unisono::engine

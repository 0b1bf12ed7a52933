#pragma once
/// Which blocks ir.h lets a caller alias. Pure.

#include <cstdint>
#include <vector>

#include "plan/ir.h"

namespace unisono::plan {

/// Block `in` of the input may be the same memory as block `out` of the output.
struct AliasedBlocks {
  std::int32_t in, out;
};

/// All pairs of this rank; empty where the collective has no in-place form at this rank.
std::vector<AliasedBlocks> aliased_blocks(const Plan& plan);

}  // namespace unisono::plan

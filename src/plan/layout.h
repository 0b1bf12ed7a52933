#pragma once
/// The blocks that ir.h gives each collective, and which of them a caller may alias. Pure.

#include <cstdint>
#include <vector>

#include "plan/ir.h"

namespace unisono::plan {

/// The extents of a rank's input and output blocks.
struct Layout {
  std::int32_t extents = 0;  ///< how many there are in all
  std::vector<std::int32_t> in, out;
  friend bool operator==(const Layout&, const Layout&) = default;
};

/// The layout of `collective` at one rank. `blocks` is the k of ir.h: into how many extents all_reduce, reduce and
/// broadcast cut the vector; the others have theirs by definition.
Layout layout_of(Collective collective, const Shape& shape, std::int32_t blocks);

/// The extents of the blocks of `space`, peer_in or peer_out, of rank `owner`, for one slice.
std::vector<std::int32_t> peer_extents(const Plan& plan, Space space, std::int32_t owner);

/// Block `in` of the input may be the same memory as block `out` of the output.
struct AliasedBlocks {
  std::int32_t in, out;
};

/// All pairs of this rank; empty where the collective has no in-place form at this rank.
std::vector<AliasedBlocks> aliased_blocks(const Plan& plan);

}  // namespace unisono::plan

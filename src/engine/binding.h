#pragma once
/// A plan bound to memory: where each block lies and how large it is. Pure arithmetic, checked against overflow.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/actions.h"
#include "engine/compiled.h"
#include "plan/ir.h"
#include "unisono/types.hpp"

namespace unisono::engine {

/// The sizes of a call, as in unisono::Call.
struct Sizes {
  std::int64_t count = 0;
  std::span<const std::int64_t> counts{};
  std::span<const std::int64_t> output_counts{};
};

/// Byte offsets of the blocks of one space; block b is [offset[b], offset[b + 1]).
struct BlockTable {
  std::vector<std::int64_t> offset;
  std::int64_t size(std::int32_t block) const { return offset[block + 1] - offset[block]; }
  std::int64_t total() const { return offset.empty() ? 0 : offset.back(); }
};

struct Binding {
  BlockTable in, out;
  BlockTable
      extents;  ///< shared plans: all extents in a row, from which peers' buffers follow (all_to_all: one rank's)
  std::vector<std::int64_t> scratch, stage;  ///< bytes of each block of scratch and of this rank's own stage
  std::int64_t largest_block =
      0;  ///< bytes of the largest extent; the same on all ranks (all_to_all with counts: of this rank's)
};

/// Where block `block` of rank q's input or output (peer_in, peer_out) begins in it, its size, and how large the whole is.
struct PeerBlock {
  std::int64_t offset = 0, bytes = 0, total = 0;
};
PeerBlock peer_block(const plan::Plan& plan, const Binding& binding, plan::Space space, std::int32_t q,
                     std::int32_t block);

/// Bytes of extent `e` for rank `rank` of `ranks`.
std::int64_t extent_bytes(const plan::Plan& plan, const Sizes& sizes, std::int64_t element, std::int32_t e);

/// Block tables of `plan`. The totals are known not to overflow: the group has checked the call.
Binding bind(const plan::Plan& plan, const Sizes& sizes, DType dtype);

/// A plan and its binding: all that calls of the same sizes have in common. Empty when there is none.
struct Bound {
  std::shared_ptr<const Compiled> compiled;
  Binding binding;
  bool uncut = false;  ///< it may run as actions
  Actions actions{};   ///< then
  explicit operator bool() const noexcept { return compiled != nullptr; }
  const plan::Plan& plan() const noexcept { return compiled->plan; }
};
Bound bound(std::shared_ptr<const Compiled> compiled, const Sizes& sizes, DType dtype);

}  // namespace unisono::engine

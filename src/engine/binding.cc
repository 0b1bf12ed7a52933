#include "engine/binding.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/checked.h"

namespace unisono::engine {

namespace {

/// First element of block e when `count` elements are cut into `blocks`. Cuts fall on whole cache lines once blocks are
/// large enough for that not to unbalance them: kernels then run aligned, and no line is shared by two owners.
std::int64_t cut(std::int64_t count, std::int64_t blocks, std::int64_t e, std::int64_t element) {
  const std::int64_t line = 64 / element;
  if (e >= blocks) return count;
  if (count < blocks * line * 16) return count / blocks * e + std::min(e, count % blocks);
  const std::int64_t lines = count / line;
  return (lines / blocks * e + std::min(e, lines % blocks)) * line;
}

BlockTable table(const plan::Plan& plan, const Sizes& sizes, std::int64_t element,
                 std::span<const std::int32_t> extents) {
  BlockTable t;
  t.offset.reserve(extents.size() + 1);
  t.offset.push_back(0);
  for (const std::int32_t e : extents) t.offset.push_back(t.offset.back() + extent_bytes(plan, sizes, element, e));
  return t;
}

}  // namespace

std::int64_t extent_bytes(const plan::Plan& plan, const Sizes& sizes, std::int64_t element, std::int32_t e) {
  switch (plan.collective) {
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::broadcast:
      return (cut(sizes.count, plan.extents, e + 1, element) - cut(sizes.count, plan.extents, e, element)) * element;
    case Collective::all_gather:
    case Collective::gather:
    case Collective::reduce_scatter:
    case Collective::scatter:
      return (sizes.counts.empty() ? sizes.count : sizes.counts[e]) * element;
    case Collective::all_to_all: {
      if (sizes.counts.empty()) return sizes.count * element;
      const std::int32_t from = e / plan.shape.ranks, to = e % plan.shape.ranks;
      if (from == plan.shape.rank) return sizes.counts[to] * element;
      return sizes.output_counts[from] * element;
    }
    case Collective::barrier:
      return 0;
  }
  return 0;
}

PeerBlock peer_block(const plan::Plan& plan, const Binding& binding, plan::Space space, std::int32_t q,
                     std::int32_t block) {
  const Collective c = plan.collective;
  const bool input = space == plan::Space::peer_in;
  const bool one = input ? c == Collective::all_gather || c == Collective::gather
                         : c == Collective::reduce_scatter || c == Collective::scatter;
  const BlockTable& all = binding.extents;
  if (one) return {0, all.size(q), all.size(q)};
  return {all.offset[block], all.size(block), all.total()};
}

Binding bind(const plan::Plan& plan, const Sizes& sizes, DType dtype) {
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  Binding b;
  b.in = table(plan, sizes, element, plan.in_extent);
  b.out = table(plan, sizes, element, plan.out_extent);
  for (const std::int32_t e : plan.scratch_extent) b.scratch.push_back(extent_bytes(plan, sizes, element, e));
  for (const std::int32_t e : plan.stage_extent) b.stage.push_back(extent_bytes(plan, sizes, element, e));
  if (plan.shared) {
    // all_to_all runs shared with equal counts only, so that every rank's buffer is cut as this one's is.
    std::vector<std::int32_t> all(plan.collective == Collective::all_to_all ? plan.shape.ranks : plan.extents);
    std::iota(all.begin(), all.end(), 0);
    b.extents = table(plan, sizes, element, all);
  }
  switch (plan.collective) {
    case Collective::all_to_all:
      b.largest_block = sizes.count * element;
      for (const auto counts : {sizes.counts, sizes.output_counts})
        for (const std::int64_t c : counts) b.largest_block = std::max(b.largest_block, c * element);
      break;
    case Collective::barrier:
      break;
    default:
      if (!sizes.counts.empty()) {
        b.largest_block = *std::max_element(sizes.counts.begin(), sizes.counts.end()) * element;
      } else {
        for (std::int32_t e = 0; e < plan.extents; e++)
          b.largest_block = std::max(b.largest_block, extent_bytes(plan, sizes, element, e));
      }
  }
  return b;
}

Bound bound(std::shared_ptr<const Compiled> compiled, const Sizes& sizes, DType dtype) {
  Binding binding = bind(compiled->plan, sizes, dtype);
  const bool uncut = runs_uncut(compiled->plan, binding);
  Actions actions = uncut ? actions_of(compiled->plan, binding) : Actions{};
  return {std::move(compiled), std::move(binding), uncut, std::move(actions)};
}

}  // namespace unisono::engine

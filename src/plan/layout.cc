#include "plan/layout.h"

#include <numeric>
#include <utility>

namespace unisono::plan {

namespace {

std::vector<std::int32_t> iota(std::int32_t first, std::int32_t count) {
  std::vector<std::int32_t> v(static_cast<std::size_t>(count));
  std::iota(v.begin(), v.end(), first);
  return v;
}

}  // namespace

Layout layout_of(Collective collective, const Shape& shape, std::int32_t blocks) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  const bool at_root = r == shape.root;
  Layout layout{n, {}, {}};
  switch (collective) {
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::broadcast:
      layout.extents = blocks;
      if (collective != Collective::broadcast || at_root) layout.in = iota(0, blocks);
      if (collective != Collective::reduce || at_root) layout.out = iota(0, blocks);
      break;
    case Collective::all_gather:
    case Collective::gather:
      layout.in = {r};
      if (collective == Collective::all_gather || at_root) layout.out = iota(0, n);
      break;
    case Collective::reduce_scatter:
    case Collective::scatter:
      if (collective == Collective::reduce_scatter || at_root) layout.in = iota(0, n);
      layout.out = {r};
      break;
    case Collective::all_to_all:
      layout.extents = n * n;
      layout.in = iota(r * n, n);
      for (std::int32_t i = 0; i < n; i++) layout.out.push_back(i * n + r);
      break;
    case Collective::barrier:
      layout.extents = 0;
      break;
  }
  return layout;
}

std::vector<std::int32_t> peer_extents(const Plan& plan, Space space, std::int32_t owner) {
  Layout layout = layout_of(plan.collective, {plan.shape.ranks, owner, plan.shape.root}, plan.extents);
  return space == Space::peer_in ? std::move(layout.in) : std::move(layout.out);
}

std::vector<AliasedBlocks> aliased_blocks(const Plan& plan) {
  if (plan.in_extent.empty() || plan.out_extent.empty()) return {};
  const std::int32_t r = plan.shape.rank;
  std::vector<AliasedBlocks> pairs;
  switch (plan.collective) {
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::reduce:
      for (std::int32_t b = 0; b < plan.extents; b++) pairs.push_back({b, b});
      break;
    case Collective::all_gather:
    case Collective::gather:
      pairs.push_back({0, r});
      break;
    case Collective::reduce_scatter:
    case Collective::scatter:
      pairs.push_back({r, 0});
      break;
    case Collective::all_to_all:
    case Collective::barrier:
      break;
  }
  return pairs;
}

}  // namespace unisono::plan

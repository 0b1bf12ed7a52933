#include "plan/layout.h"

namespace unisono::plan {

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

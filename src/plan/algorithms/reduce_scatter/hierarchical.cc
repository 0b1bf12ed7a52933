#include "plan/host_map.h"
#include "plan/patterns.h"

/// Ranks on several hosts: the parts of a block are added on each host by the counterpart of its owner there, in the order of
/// ranks, and the sums by the owner, in the order of hosts.
///
///   all of a host -> the counterpart of the owner -> the owner
///
/// Of every block one sum leaves each host, over as many connections side by side as the hosts have ranks.
///
/// Source: folklore; hierarchical all_gather backwards. Bytes, H even hosts of L ranks: (L-1)/L S inside and (H-1)/n S between hosts.
namespace unisono::plan::reduce_scatter {

Plan hierarchical(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  const HostMap map(shape);
  const std::int32_t host = map.host_of(r);
  PlanBuilder b(Collective::reduce_scatter, "hierarchical", shape);
  if (n == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
    return std::move(b).build();
  }
  // Block by block in the order of ranks: so both ends of a pair list what goes between them in the same order.
  for (std::int32_t block = 0; block < n; block++)
    if (const std::int32_t adds = map.counterpart(block, host); adds != r) b.send(adds, PlanBuilder::in(block));
  for (std::int32_t block = 0; block < n; block++) {
    if (map.counterpart(block, host) != r) continue;
    std::vector<Ref> parts;
    for (const std::int32_t q : map.members(host)) {
      parts.push_back(q == r ? PlanBuilder::in(block) : b.new_scratch(block));
      if (q != r) b.recv(q, parts.back());
    }
    const bool single = parts.size() == 1, mine = block == r;
    const Ref sum = single ? parts[0] : mine && map.count() == 1 ? PlanBuilder::out(0) : b.new_scratch(block);
    if (!single) b.reduce({sum}, parts, map.count() == 1);
    if (!mine) {
      b.send(block, sum);
      continue;
    }
    if (map.count() == 1) continue;
    std::vector<Ref> sums;
    for (std::int32_t h = 0; h < map.count(); h++) {
      sums.push_back(h == host ? sum : b.new_scratch(r));
      if (h != host) b.recv(map.counterpart(r, h), sums.back());
    }
    b.reduce({PlanBuilder::out(0)}, sums, true);
  }
  return std::move(b).build();
}

// Of each block but its own a rank sends its part to whoever adds it up, or, where that is itself, the sum to the owner.
Cost hierarchical_cost(const Shape& shape) { return {Cost::kNotCounted, 1.0 * (shape.ranks - 1) / shape.ranks}; }

}  // namespace unisono::plan::reduce_scatter

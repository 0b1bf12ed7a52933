#include "plan/host_map.h"
#include "plan/patterns.h"

/// Ranks on several hosts: a block goes to one rank of each other host, its counterpart there, who hands it on; on its own host it
/// goes straight to everybody.
///
///   rank -> its counterparts -> all others of their hosts
///   rank -> all others of its host
///
/// Every block goes into each host once, over as many connections side by side as the hosts have ranks.
///
/// Source: folklore. Bytes, H even hosts of L ranks: (L-1 + H-1 + (H-1)(L-1)) / n S = (n-1)/n S a rank, as the flat ones, but
/// of those only (H-1)/n S between hosts.
namespace unisono::plan::all_gather {

Plan hierarchical(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  const HostMap map(shape);
  const std::int32_t host = map.host_of(r);
  PlanBuilder b(Collective::all_gather, "hierarchical", shape);
  for (std::int32_t i = 1; i < map.count(); i++)
    b.send(map.counterpart(r, (host + i) % map.count()), PlanBuilder::in(0));
  // Block by block in the order of ranks: so both ends of a pair list what goes between them in the same order.
  for (std::int32_t q = 0; q < n; q++) {
    const std::int32_t carrier = map.counterpart(q, host);
    const Ref block = q == r ? PlanBuilder::in(0) : PlanBuilder::out(q);
    if (q != r) b.recv(carrier == r ? q : carrier, block);
    if (carrier != r) continue;
    for (const std::int32_t to : map.members(host))
      if (to != r) b.send(to, block);
  }
  b.copy(PlanBuilder::out(r), PlanBuilder::in(0));
  return std::move(b).build();
}

Cost hierarchical_cost(const Shape& shape) {
  const HostMap map(shape);
  std::int32_t most = 0;
  for (std::int32_t r = 0; r < shape.ranks; r++) {
    const std::int32_t host = map.host_of(r), others = map.local_size(host) - 1;
    std::int32_t carried = 1;
    for (std::int32_t q = 0; q < shape.ranks; q++) carried += q != r && map.counterpart(q, host) == r ? 1 : 0;
    most = std::max(most, map.count() - 1 + carried * others);
  }
  return {Cost::kNotCounted, 1.0 * most / shape.ranks};
}

}  // namespace unisono::plan::all_gather

#include "plan/host_map.h"
#include "plan/patterns.h"

/// Ranks on several hosts: one rank of each host, on the root's host the root, gets the vector and hands it on there. Between hosts
/// it goes down a binomial tree over these ranks, inside a host straight to everybody.
///
///   root -> one rank of each host (binomial) -> all others of the host
///
/// S goes into each host once.
///
/// Source: folklore. Bytes: at the root (ceil(log2 H) + L-1) S for H hosts, L ranks on its own; a host's other ranks send nothing.
namespace unisono::plan::broadcast {

namespace {

/// The rank of `host` that hears from other hosts.
std::int32_t head(const HostMap& map, std::int32_t host, std::int32_t root) { return map.counterpart(root, host); }

}  // namespace

Plan hierarchical(const Shape& shape) {
  const HostMap map(shape);
  PlanBuilder b(Collective::broadcast, "hierarchical", shape);
  const std::int32_t host = map.host_of(shape.rank), mine = head(map, host, shape.root);
  Ref have = PlanBuilder::in(0);
  if (shape.rank == mine) {
    const BinomialTree tree({map.count(), host, map.host_of(shape.root)});
    if (tree.parent >= 0) {
      have = PlanBuilder::out(0);
      b.recv(head(map, tree.parent, shape.root), have);
    }
    for (const BinomialTree::Child& child : tree.children) b.send(head(map, child.rank, shape.root), have);
    for (const std::int32_t q : map.members(host))
      if (q != shape.rank) b.send(q, have);
  } else {
    b.recv(mine, PlanBuilder::out(0));
  }
  if (shape.rank == shape.root) b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
  return std::move(b).build();
}

Cost hierarchical_cost(const Shape& shape) {
  const HostMap map(shape);
  std::int32_t most = 0;
  for (std::int32_t host = 0; host < map.count(); host++) {
    const BinomialTree tree({map.count(), host, map.host_of(shape.root)});
    most = std::max(most, static_cast<std::int32_t>(tree.children.size()) + map.local_size(host) - 1);
  }
  return {Cost::kNotCounted, static_cast<double>(most)};
}

}  // namespace unisono::plan::broadcast

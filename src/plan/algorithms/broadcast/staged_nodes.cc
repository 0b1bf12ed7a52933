#include <numeric>

#include "plan/patterns.h"

/// All ranks share memory, on several NUMA nodes. The root stages its data; those on its node fetch it from there. The vector is cut into a
/// shard for each rank of the largest node, at most 16; on every other node every shard has a carrier, who fetches it from the root's stage onto its
/// own, from where the others of its node have it.
///
///   root           put | signal 0
///   its node       wait root, get
///   other nodes    wait root, get the own shards, put them | signal 1 | get the others from their carriers
///
/// S goes into each node once, read by so many ranks side by side as fill a link, where `staged` sends it to each rank.
///
/// Source: folklore. Phases: 2. To and from stages, on even nodes of L ranks, at most 16: (1 + 1/L) S a rank.
namespace unisono::plan::broadcast {

Plan staged(const Shape& shape);
Cost staged_cost(const Shape& shape);

namespace {

/// More carriers than keep a link busy cost steps and bring nothing.
std::int32_t shards_of(const HostMap& map) { return std::min(map.largest(), 16); }

Plan over_nodes(const Shape& shape, const HostMap& map) {
  const std::int32_t r = shape.rank, root = shape.root, node = map.host_of(r), shards = shards_of(map);
  const auto carrier = [&](std::int32_t shard) {
    return map.members(node)[static_cast<std::size_t>(shard % map.local_size(node))];
  };
  PlanBuilder b(Collective::broadcast, "staged_nodes", shape, shards);
  std::vector<std::int32_t> extents(static_cast<std::size_t>(shards));
  std::iota(extents.begin(), extents.end(), 0);
  b.stage_extents(std::move(extents));
  if (r == root)
    for (std::int32_t shard = 0; shard < shards; shard++) b.put(shard, PlanBuilder::in(shard));
  b.signal(0);
  const bool fetches_all = r != root && node == map.host_of(root);
  if (r != root) b.wait(root, 0);
  for (std::int32_t shard = 0; shard < shards && r != root; shard++) {
    if (!fetches_all && carrier(shard) != r) continue;
    b.get(PlanBuilder::out(shard), root, shard);
    if (!fetches_all) b.put(shard, PlanBuilder::out(shard));
  }
  b.signal(1);
  for (std::int32_t i = 1; i <= shards && r != root && !fetches_all; i++) {
    const std::int32_t shard = (map.place_of(r) + i) % shards;
    if (carrier(shard) == r) continue;
    b.wait(carrier(shard), 1);
    b.get(PlanBuilder::out(shard), carrier(shard), shard);
  }
  if (r == root) b.copy(PlanBuilder::out(0, shards), PlanBuilder::in(0, shards));
  return std::move(b).build();
}

}  // namespace

Plan staged_nodes(const Shape& shape) {
  const HostMap map = HostMap::of_nodes(shape);
  return map.count() > 1 ? over_nodes(shape, map) : staged_nodes_of(staged(shape));
}

Cost staged_nodes_cost(const Shape& shape) {
  const HostMap map = HostMap::of_nodes(shape);
  if (map.count() == 1) return staged_cost(shape);
  std::int32_t most = 0;  // shards that one rank carries: the first one of the smallest node that is not the root's
  for (std::int32_t node = 0; node < map.count(); node++)
    if (node != map.host_of(shape.root))
      most = std::max(most, (shards_of(map) + map.local_size(node) - 1) / map.local_size(node));
  return {Cost::kNotCounted, 1 + 1.0 * most / shards_of(map)};
}

}  // namespace unisono::plan::broadcast

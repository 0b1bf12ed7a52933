#include "plan/patterns.h"

/// All ranks share memory, on several NUMA nodes: a rank's block is on its own stage for those of its node; on each other node its
/// counterpart there fetches it onto its stage, for the others of that node.
///
///   put own | signal 0 | fetch and put what it carries | signal 1 | get the others of the node, and what they carry
///
/// Every block goes into each other node once, in all (H-1) S over the links between nodes; `staged` sends it to each rank there.
///
/// Source: folklore. Phases: 2. To and from stages, on H even nodes of L ranks: (n + H-1) / n S a rank.
namespace unisono::plan::all_gather {

Plan staged(const Shape& shape);
Cost staged_cost(const Shape& shape);

namespace {

/// The ranks of other nodes whose blocks `rank` carries.
std::vector<std::int32_t> carried_by(const HostMap& map, std::int32_t ranks, std::int32_t rank) {
  std::vector<std::int32_t> carried;
  for (std::int32_t q = 0; q < ranks; q++)
    if (q != rank && map.counterpart(q, map.host_of(rank)) == rank) carried.push_back(q);
  return carried;
}

std::size_t most_carried(const HostMap& map, std::int32_t ranks) {
  std::vector<std::size_t> carried(static_cast<std::size_t>(ranks), 0);
  for (std::int32_t q = 0; q < ranks; q++)
    for (std::int32_t node = 0; node < map.count(); node++)
      if (node != map.host_of(q)) carried[static_cast<std::size_t>(map.counterpart(q, node))]++;
  return *std::max_element(carried.begin(), carried.end());
}

Plan over_nodes(const Shape& shape, const HostMap& map) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::all_gather, "staged_nodes", shape);
  const auto mine = carried_by(map, n, r);
  std::vector<std::int32_t> extents{r};
  extents.insert(extents.end(), mine.begin(), mine.end());
  extents.resize(1 + most_carried(map, n), r);  // as many places on every stage; the last ones are not used
  b.stage_extents(std::move(extents));

  b.put(0, PlanBuilder::in(0));
  b.signal(0);
  for (std::size_t k = 0; k < mine.size(); k++) {
    b.wait(mine[k], 0);
    b.get(PlanBuilder::out(mine[k]), mine[k], 0);
    b.put(static_cast<std::int32_t>(k) + 1, PlanBuilder::out(mine[k]));
  }
  b.signal(1);
  b.copy(PlanBuilder::out(r), PlanBuilder::in(0));
  const auto neighbours = neighbours_of(map, r);
  for (const std::int32_t q : neighbours) {
    b.wait(q, 0);
    b.get(PlanBuilder::out(q), q, 0);
  }
  for (const std::int32_t q : neighbours) {
    const auto theirs = carried_by(map, n, q);
    if (!theirs.empty()) b.wait(q, 1);
    for (std::size_t i = 0; i < theirs.size(); i++)
      b.get(PlanBuilder::out(theirs[i]), q, static_cast<std::int32_t>(i) + 1);
  }
  return std::move(b).build();
}

}  // namespace

Plan staged_nodes(const Shape& shape) {
  const HostMap map = HostMap::of_nodes(shape);
  return map.count() > 1 ? over_nodes(shape, map) : staged_nodes_of(staged(shape));
}

// Every rank puts its own block, gets all others, and puts once more what it carries.
Cost staged_nodes_cost(const Shape& shape) {
  const HostMap map = HostMap::of_nodes(shape);
  if (map.count() == 1) return staged_cost(shape);
  return {Cost::kNotCounted, 1 + static_cast<double>(most_carried(map, shape.ranks)) / shape.ranks};
}

}  // namespace unisono::plan::all_gather

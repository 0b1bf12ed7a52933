#include <numeric>

#include "plan/patterns.h"

/// All ranks share memory, on several NUMA nodes: on each node the parts of a block are added up from the stages of that node by the
/// counterpart of its owner there, in the order of ranks; the owner adds up its own node's parts, and the sums of the nodes in their order.
///
///   put what others add up | signal 0 | add for owners on other nodes, onto the stage | signal 1 | add for itself, then the nodes' sums
///
/// Of every block one sum goes out of each node, in all (H-1) S over the links between nodes, where `staged` reads every part. The place
/// on a stage of a block that the rank itself adds up is free for the sum.
///
/// Source: folklore; staged_nodes all_gather backwards. Phases: 2.
namespace unisono::plan::reduce_scatter {

Plan staged(const Shape& shape);
Cost staged_cost(const Shape& shape);

namespace {

/// One rank's view.
class Nodes {
 public:
  Nodes(const Shape& shape, const HostMap& map)
      : map_(map), node_(map.host_of(shape.rank)), b_(Collective::reduce_scatter, "staged_nodes", shape) {}

  Plan build() && {
    const std::int32_t n = b_.ranks(), r = b_.rank();
    std::vector<std::int32_t> extents(static_cast<std::size_t>(n));
    std::iota(extents.begin(), extents.end(), 0);
    b_.stage_extents(std::move(extents));
    for (std::int32_t i = 1; i < n; i++)
      if (const std::int32_t block = (r + i) % n; adder(block) != r) b_.put(block, PlanBuilder::in(block));
    b_.signal(0);
    for (const std::int32_t q : map_.members(node_))
      if (q != r) b_.wait(q, 0);
    for (std::int32_t block = 0; block < n; block++)
      if (block != r && adder(block) == r) add(PlanBuilder::stage(r, block), block);
    b_.signal(1);
    if (!alone()) add(PlanBuilder::out(0), r);
    add_nodes();
    return std::move(b_).build();
  }

 private:
  std::int32_t adder(std::int32_t block) const { return map_.counterpart(block, node_); }

  /// The only rank of its node: what it has is the node's sum.
  bool alone() const { return map_.local_size(node_) == 1; }

  /// The own node's sum of a block.
  void add(Ref into, std::int32_t block) {
    if (alone()) {
      b_.put(block, PlanBuilder::in(block));
      return;
    }
    b_.reduce({into}, parts_on_node(b_, map_, block), false);
  }

  void add_nodes() {
    const std::int32_t r = b_.rank();
    std::vector<Ref> sums;
    for (std::int32_t node = 0; node < map_.count(); node++) {
      const std::int32_t from = map_.counterpart(r, node);
      if (node != node_) b_.wait(from, 1);
      sums.push_back(node != node_ ? PlanBuilder::stage(from, r) : alone() ? PlanBuilder::in(r) : PlanBuilder::out(0));
    }
    b_.reduce({PlanBuilder::out(0)}, sums, true);
  }

  const HostMap& map_;
  std::int32_t node_;
  PlanBuilder b_;
};

}  // namespace

Plan staged_nodes(const Shape& shape) {
  const HostMap map = HostMap::of_nodes(shape);
  return map.count() > 1 ? Nodes(shape, map).build() : staged_nodes_of(staged(shape));
}

// A rank puts the blocks that others of its node add up, reads the parts of those that it adds up, and the sums of the other nodes.
Cost staged_nodes_cost(const Shape& shape) {
  const HostMap map = HostMap::of_nodes(shape);
  if (map.count() == 1) return staged_cost(shape);
  std::int32_t most = 0;
  for (std::int32_t node = 0; node < map.count(); node++) {
    std::vector<std::int32_t> adds(map.members(node).size(), 0);
    for (std::int32_t block = 0; block < shape.ranks; block++)
      adds[static_cast<std::size_t>(map.place_of(map.counterpart(block, node)))]++;
    const std::int32_t others = map.local_size(node) - 1;
    for (const std::int32_t count : adds) {
      const std::int32_t added = others == 0 ? count - 1 : count * others;  // alone, it puts what others own
      most = std::max(most, shape.ranks - count + added + map.count() - 1);
    }
  }
  return {Cost::kNotCounted, 1.0 * most / shape.ranks};
}

}  // namespace unisono::plan::reduce_scatter

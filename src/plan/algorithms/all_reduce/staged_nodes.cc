#include <numeric>

#include "plan/patterns.h"

/// All ranks share memory, on several NUMA nodes. The vector is cut into a shard for each rank of the largest node, each shard into a block
/// for each of the H nodes; on every node every shard has an owner, on a smaller node some own several.
///
///   inside     everybody stages the shards that others of its node own; owners add them up from the stages of their node, in the order of
///              ranks, and leave on their stage what other nodes will add up                                                   | signal 0, 1
///   between    the owner of a shard adds up its node's block of it from the sums of all nodes, in the order of nodes               | signal 2
///   between    it fetches the other blocks from their owners, and puts them onto its own stage                                     | signal 3
///   inside     all fetch the finished shards from the stages of their own node
///
/// A place on a stage is used twice: for the node's sum, and, once the other node has read it (its signal 2), for the total. Over the links
/// between nodes goes what must: 2 (H-1) S in all, where staged_two_shot reads (n - L) S twice for n ranks, L on each node.
///
/// Source: folklore; hierarchical all_reduce with stages for messages. Phases: 4.
namespace unisono::plan::all_reduce {

namespace {

/// One rank's view. Block (j, i): the part of shard j that node i adds up.
class Nodes {
 public:
  Nodes(const Shape& shape, const HostMap& map)
      : map_(map),
        nodes_(map.count()),
        node_(map.host_of(shape.rank)),
        shards_(map.largest()),
        b_(Collective::all_reduce, "staged_nodes", shape, nodes_ * shards_) {
    for (std::int32_t shard = 0; shard < shards_; shard++)
      if (owner(node_, shard) == shape.rank) mine_.push_back(shard);
  }

  Plan build() && {
    std::vector<std::int32_t> extents(static_cast<std::size_t>(nodes_ * shards_));
    std::iota(extents.begin(), extents.end(), 0);
    b_.stage_extents(std::move(extents));
    stage_for_others();
    b_.signal(0);
    add_inside();
    b_.signal(1);
    add_between();
    b_.signal(2);
    fetch_between();
    b_.signal(3);
    fetch_inside();
    return std::move(b_).build();
  }

 private:
  std::int32_t owner(std::int32_t node, std::int32_t shard) const {
    return map_.members(node)[static_cast<std::size_t>(shard % map_.local_size(node))];
  }
  std::int32_t block(std::int32_t shard, std::int32_t node) const { return shard * nodes_ + node; }
  /// The only rank of its node: what it has is the node's sum.
  bool alone() const { return map_.local_size(node_) == 1; }

  void stage_for_others() {
    for (std::int32_t i = 1; i < shards_; i++) {
      const std::int32_t shard = (mine_.front() + i) % shards_;
      if (owner(node_, shard) == b_.rank()) continue;
      for (std::int32_t node = 0; node < nodes_; node++)
        b_.put(block(shard, node), PlanBuilder::in(block(shard, node)));
    }
  }

  /// The own node's sum of every block of the own shards: in `out` where this node goes on with it, else on the stage.
  void add_inside() {
    for (const std::int32_t q : neighbours_of(map_, b_.rank())) b_.wait(q, 0);
    for (const std::int32_t shard : mine_)
      for (std::int32_t i = 1; i <= nodes_; i++) {
        const std::int32_t at = block(shard, (node_ + i) % nodes_);
        if (alone()) {
          if (i < nodes_) b_.put(at, PlanBuilder::in(at));
          continue;
        }
        b_.reduce({i == nodes_ ? PlanBuilder::out(at) : PlanBuilder::stage(b_.rank(), at)}, parts_on_node(b_, map_, at),
                  false);
      }
  }

  void add_between() {
    for (const std::int32_t shard : mine_) {
      const std::int32_t at = block(shard, node_);
      std::vector<Ref> sums;
      for (std::int32_t node = 0; node < nodes_; node++) {
        if (node != node_) b_.wait(owner(node, shard), 1);
        sums.push_back(node != node_ ? PlanBuilder::stage(owner(node, shard), at)
                       : alone()     ? PlanBuilder::in(at)
                                     : PlanBuilder::out(at));
      }
      b_.reduce({PlanBuilder::out(at), PlanBuilder::stage(b_.rank(), at)}, sums, true);
    }
  }

  void fetch_between() {
    for (const std::int32_t shard : mine_)
      for (std::int32_t i = 1; i < nodes_; i++) {
        const std::int32_t node = (node_ + i) % nodes_, at = block(shard, node), from = owner(node, shard);
        b_.wait(from, 2);
        b_.get(PlanBuilder::out(at), from, at);
        b_.put(at, PlanBuilder::out(at));
      }
  }

  void fetch_inside() {
    for (const std::int32_t q : neighbours_of(map_, b_.rank())) {
      b_.wait(q, 3);
      for (std::int32_t shard = map_.place_of(q); shard < shards_; shard += map_.local_size(node_))
        for (std::int32_t node = 0; node < nodes_; node++)
          b_.get(PlanBuilder::out(block(shard, node)), q, block(shard, node));
    }
  }

  const HostMap& map_;
  std::int32_t nodes_, node_, shards_;
  PlanBuilder b_;
  std::vector<std::int32_t> mine_;  ///< shards
};

}  // namespace

Plan staged_two_shot(const Shape& shape);
Cost staged_two_shot_cost(const Shape& shape);

Plan staged_nodes(const Shape& shape) {
  const HostMap map = HostMap::of_nodes(shape);
  return map.count() > 1 ? Nodes(shape, map).build() : staged_nodes_of(staged_two_shot(shape));
}

Cost staged_nodes_cost(const Shape& shape) {
  const HostMap map = HostMap::of_nodes(shape);
  if (map.count() == 1) return staged_two_shot_cost(shape);
  const double nodes = map.count(), shards = map.largest();
  double most = 0;
  for (std::int32_t node = 0; node < map.count(); node++) {
    const std::int32_t size = map.local_size(node);
    // The first rank of a node owns the most shards, the last one the fewest.
    for (const std::int32_t place : {0, size - 1}) {
      const double own = (map.largest() - place + size - 1) / size;  // NOLINT(bugprone-integer-division): whole shards
      const double staged = 2 * (shards - own), added = own * (size - 1) + (size == 1 ? own * (nodes - 1) / nodes : 0);
      most = std::max(most, (staged + added + 3 * own * (nodes - 1) / nodes) / shards);
    }
  }
  return {Cost::kNotCounted, most};
}

}  // namespace unisono::plan::all_reduce

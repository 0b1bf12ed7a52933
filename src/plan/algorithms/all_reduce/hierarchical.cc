#include "plan/host_map.h"
#include "plan/patterns.h"

/// Ranks on several hosts. The first m ranks of each host, m being the size of the smallest host, own a shard each, cut into one
/// block for each of the H hosts.
///
///   inside     everybody sends each shard to its owner on the same host, who adds them in the order of ranks
///   between    the owners of a shard send each other its blocks, add those they get in the order of hosts, and send back the sums
///   inside     owners send the finished shard to everybody on their host
///
/// Between two hosts goes what must: 2 (H-1)/H S out of each host and as much in, over m connections side by side; a flat ring sends twice
/// that where hosts have two ranks. The slices of one phase overlap those of the others.
///
/// Source: folklore (NCCL's tree and MPI's "smp" algorithms have the same phases). Bytes, even hosts of L ranks:
/// (L-1)/L S + 2 (H-1)/H S/L + (L-1)/L S a rank.
namespace unisono::plan::all_reduce {

namespace {

/// One rank's view. Block (j, i): the part of shard j that host i adds up.
class Hierarchy {
 public:
  Hierarchy(const Shape& shape, const HostMap& map)
      : map_(map),
        hosts_(map.count()),
        host_(map.host_of(shape.rank)),
        place_(map.place_of(shape.rank)),
        owners_(map.smallest()),
        b_(Collective::all_reduce, "hierarchical", shape, hosts_ * owners_) {}

  Plan build() && {
    for (std::int32_t i = 1; i <= owners_; i++) {
      const std::int32_t shard = (place_ + i) % owners_;
      if (shard != place_) b_.send(owner(host_, shard), shard_of(Space::in, shard));
    }
    if (place_ < owners_) own_shard();
    for (std::int32_t shard = 0; shard < owners_; shard++)
      if (shard != place_) b_.recv(owner(host_, shard), shard_of(Space::out, shard));
    return std::move(b_).build();
  }

 private:
  std::int32_t owner(std::int32_t host, std::int32_t shard) const {
    return map_.members(host)[static_cast<std::size_t>(shard)];
  }
  Ref shard_of(Space space, std::int32_t shard) const { return {space, -1, shard * hosts_, hosts_}; }
  std::int32_t block(std::int32_t host) const { return place_ * hosts_ + host; }

  void own_shard() {
    const std::vector<Ref> partial = add_inside();
    if (hosts_ > 1) add_between(partial);
    for (const std::int32_t q : map_.members(host_))
      if (q != b_.rank()) b_.send(q, shard_of(Space::out, place_));
  }

  /// The sum over this host of each block of the own shard, and where it is.
  std::vector<Ref> add_inside() {
    std::vector<std::vector<Ref>> parts(static_cast<std::size_t>(hosts_));
    for (const std::int32_t q : map_.members(host_)) {
      RefList message;
      for (std::int32_t i = 0; i < hosts_; i++) {
        const Ref part = q == b_.rank() ? PlanBuilder::in(block(i)) : b_.new_scratch(block(i));
        parts[static_cast<std::size_t>(i)].push_back(part);
        if (q != b_.rank()) message.add(part);
      }
      if (q != b_.rank()) b_.recv(q, message);
    }
    std::vector<Ref> sums;
    for (std::int32_t i = 0; i < hosts_; i++) {
      const std::vector<Ref>& sources = parts[static_cast<std::size_t>(i)];
      sums.push_back(sources.size() == 1 ? sources[0] : PlanBuilder::out(block(i)));
      if (sources.size() > 1) b_.reduce({sums.back()}, sources, hosts_ == 1);
    }
    return sums;
  }

  void add_between(const std::vector<Ref>& partial) {
    std::vector<Ref> sources(static_cast<std::size_t>(hosts_));
    sources[static_cast<std::size_t>(host_)] = partial[static_cast<std::size_t>(host_)];
    for (std::int32_t i = 1; i < hosts_; i++) {
      const std::int32_t to = (host_ + i) % hosts_, from = (host_ - i + hosts_) % hosts_;
      b_.send(owner(to, place_), partial[static_cast<std::size_t>(to)]);
      const Ref arrived = sources[static_cast<std::size_t>(from)] = b_.new_scratch(block(host_));
      b_.recv(owner(from, place_), arrived);
    }
    b_.reduce({PlanBuilder::out(block(host_))}, sources, true);
    for (std::int32_t i = 1; i < hosts_; i++) {
      const std::int32_t to = (host_ + i) % hosts_, from = (host_ - i + hosts_) % hosts_;
      b_.send(owner(to, place_), PlanBuilder::out(block(host_)));
      b_.recv(owner(from, place_), PlanBuilder::out(block(from)));
    }
  }

  const HostMap& map_;
  std::int32_t hosts_, host_, place_, owners_;
  PlanBuilder b_;
};

}  // namespace

Plan hierarchical(const Shape& shape) {
  if (shape.ranks == 1) {
    PlanBuilder b(Collective::all_reduce, "hierarchical", shape);
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
    return std::move(b).build();
  }
  const HostMap map(shape);
  return Hierarchy(shape, map).build();
}

Cost hierarchical_cost(const Shape& shape) {
  const HostMap map(shape);
  const double hosts = map.count(), shards = map.smallest(), largest = map.largest();
  // An owner on the largest host; one that owns nothing sends less.
  return {Cost::kNotCounted, ((shards - 1) + 2 * (hosts - 1) / hosts + (largest - 1)) / shards};
}

}  // namespace unisono::plan::all_reduce

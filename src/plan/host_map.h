#pragma once
/// Who shares a host with whom, for algorithms that go over several hosts, and who shares a NUMA node. Pure.

#include <cstdint>
#include <span>
#include <vector>

#include "plan/ir.h"

namespace unisono::plan {

/// Without Shape::hosts all ranks are on one host.
class HostMap {
 public:
  explicit HostMap(const Shape& shape);
  /// The same of NUMA nodes, from Shape::nodes: read "node" for "host".
  static HostMap of_nodes(const Shape& shape);

  std::int32_t count() const noexcept { return static_cast<std::int32_t>(members_.size()); }
  /// The ranks on a host, ascending.
  std::span<const std::int32_t> members(std::int32_t host) const { return members_[static_cast<std::size_t>(host)]; }
  std::int32_t host_of(std::int32_t rank) const { return host_[static_cast<std::size_t>(rank)]; }
  /// Which one of its host's ranks it is.
  std::int32_t place_of(std::int32_t rank) const { return place_[static_cast<std::size_t>(rank)]; }
  std::int32_t local_size(std::int32_t host) const { return static_cast<std::int32_t>(members(host).size()); }
  /// Ranks on the smallest host: so many ranks of each host talk to the other hosts side by side.
  std::int32_t smallest() const noexcept { return smallest_; }
  std::int32_t largest() const noexcept { return largest_; }
  /// The rank on `host` that deals with what concerns rank `rank` of another host, or the rank itself on its own.
  std::int32_t counterpart(std::int32_t rank, std::int32_t host) const {
    return host == host_of(rank) ? rank : members(host)[static_cast<std::size_t>(place_of(rank) % local_size(host))];
  }

 private:
  HostMap(std::int32_t ranks, std::vector<std::int32_t> host_of_rank);

  std::vector<std::int32_t> host_, place_;
  std::vector<std::vector<std::int32_t>> members_;
  std::int32_t smallest_ = 0, largest_ = 0;
};

/// All ranks but `shape.rank`, in the order in which it should read from them: those of its own node first, and on each node from the rank
/// behind it on, so that no two ranks start with the same one.
std::vector<std::int32_t> nearest_first(const Shape& shape);

/// Layouts that verification and tests go through: one host, even and uneven hosts, neighbours together and dealt out in turn.
std::vector<std::vector<std::int32_t>> sample_hosts(std::int32_t ranks);

}  // namespace unisono::plan

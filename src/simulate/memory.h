#pragma once
/// A host's memory as something that can be busy: its NUMA nodes, and the links between them. Part of the engine of the simulator; no
/// caches: every byte that is read or written goes through the memory where it lies.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "simulate/model.h"

namespace unisono::simulate {

class Memory {
 public:
  /// `node_of_rank` empty: memory is never busy.
  Memory(const Numa& numa, std::vector<std::int32_t> node_of_rank);

  bool known() const noexcept { return !node_of_rank_.empty(); }
  std::int32_t node_of(std::int32_t rank) const { return node_of_rank_[static_cast<std::size_t>(rank)]; }
  /// Seconds until a store by rank `a` is seen by rank `b`, beyond what it takes inside a node.
  double latency(std::int32_t a, std::int32_t b) const { return known() && node_of(a) != node_of(b) ? numa_.L : 0; }
  /// A processor on node `to` reads `bytes` from the memory of node `from`, or writes them there, from `now` on. Links and memories serve one
  /// after the other in the order of calls. When the last byte is through.
  double read(std::int32_t from, std::int32_t to, double bytes, double now);
  double write(std::int32_t from, std::int32_t to, double bytes, double now);

  /// Bytes that went over links between nodes, both ways.
  double crossed() const noexcept { return crossed_; }
  /// The link or memory that was busy longest, and how long.
  std::pair<std::string, double> busiest() const;

 private:
  struct Server {
    double free = 0, busy = 0;
    double serve(double seconds, double now);
  };
  double cross(std::int32_t from, std::int32_t to, double bytes, double now);

  Numa numa_;
  std::vector<std::int32_t> node_of_rank_;
  std::vector<Server> links_, memories_;  ///< links by from * nodes + to
  double crossed_ = 0;
};

}  // namespace unisono::simulate

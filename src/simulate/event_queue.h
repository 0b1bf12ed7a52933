#pragma once
/// What will happen, the next first. Part of the engine of the simulator.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace unisono::simulate {

/// Ties go by rank within a host, slice and step, so that hosts that do the same do it in the same order.
struct Event {
  double time;
  std::uint64_t order;
  std::uint32_t task;     ///< or link
  std::uint32_t version;  ///< of a link's due time (FairLinks); kTask: a task's
  bool operator>(const Event& other) const { return time != other.time ? time > other.time : order > other.order; }
};

/// The standard library's, which can be looked into.
class EventQueue : public std::priority_queue<Event, std::vector<Event>, std::greater<>> {
 public:
  /// Calls for the next one and for up to two others, of which the one after it is one.
  template <typename Visit>
  void look_ahead(Visit&& visit) const {
    for (std::size_t i = 0; i < std::min<std::size_t>(3, c.size()); i++) visit(c[i]);
  }
};

}  // namespace unisono::simulate

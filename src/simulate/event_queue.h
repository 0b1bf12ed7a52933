#pragma once
/// What will happen, the next first. Part of the engine of the simulator.
///
/// A heap with four children a node: half the levels of a binary one, and those that are compared lie side by side.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace unisono::simulate {

/// Ties go by rank within a host, slice and step, so that hosts that do the same do it in the same order.
struct Event {
  double time;
  std::uint64_t order;
  std::uint32_t task;     ///< or link
  std::uint32_t version;  ///< of a link's due time (FairLinks); kTask: a task's
  bool operator<(const Event& other) const { return time != other.time ? time < other.time : order < other.order; }
};

class EventQueue {
 public:
  bool empty() const noexcept { return heap_.empty(); }
  /// The next one. Not of an empty queue.
  const Event& top() const { return heap_.front(); }

  /// Calls for the next one and for up to four others, of which the one after it is one.
  template <typename Visit>
  void look_ahead(Visit&& visit) const {
    for (std::size_t i = 0; i < std::min(kChildren + 1, heap_.size()); i++) visit(heap_[i]);
  }

  void push(const Event& event) {
    std::size_t at = heap_.size();
    heap_.push_back(event);
    while (at > 0 && event < heap_[parent(at)]) {
      heap_[at] = heap_[parent(at)];
      at = parent(at);
    }
    heap_[at] = event;
  }

  Event pop() {
    const Event first = heap_.front(), last = heap_.back();
    heap_.pop_back();
    if (heap_.empty()) return first;
    std::size_t at = 0;
    for (std::size_t child = smallest_child(at); child < heap_.size() && heap_[child] < last;
         child = smallest_child(at)) {
      heap_[at] = heap_[child];
      at = child;
    }
    heap_[at] = last;
    return first;
  }

 private:
  static constexpr std::size_t kChildren = 4;
  static std::size_t parent(std::size_t at) { return (at - 1) / kChildren; }
  /// Or the heap's size, when it has none.
  std::size_t smallest_child(std::size_t at) const {
    const std::size_t first = at * kChildren + 1, end = std::min(first + kChildren, heap_.size());
    if (first >= end) return heap_.size();
    return static_cast<std::size_t>(std::min_element(heap_.begin() + static_cast<std::ptrdiff_t>(first),
                                                     heap_.begin() + static_cast<std::ptrdiff_t>(end)) -
                                    heap_.begin());
  }
  std::vector<Event> heap_;
};

}  // namespace unisono::simulate

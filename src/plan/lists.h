#pragma once
/// Many short lists in one piece of memory: none of them allocates anything for itself.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace unisono::plan {

/// Lists of values, by number.
template <class Value>
class Lists {
 public:
  explicit Lists(std::size_t lists = 0) : heads_(lists, kEnd) {}

  void add(std::size_t list, const Value& value) {
    nodes_.push_back({value, heads_[list]});
    heads_[list] = static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  void clear(std::size_t list) { heads_[list] = kEnd; }
  /// The latest first.
  template <class Visit>
  void for_each(std::size_t list, Visit visit) const {
    for (std::uint32_t i = heads_[list]; i != kEnd; i = nodes_[i].next) visit(nodes_[i].value);
  }

 private:
  static constexpr std::uint32_t kEnd = ~std::uint32_t{0};
  struct Node {
    Value value;
    std::uint32_t next;
  };
  std::vector<std::uint32_t> heads_;
  std::vector<Node> nodes_;
};

}  // namespace unisono::plan

#pragma once
/// Symbolic values of the verifier: who contributed to a block, and by which tree. Equal trees have equal ids.

#include <cstdint>
#include <span>
#include <vector>

namespace unisono::plan {

/// Id of a value; 0 is "undefined".
using Value = std::uint32_t;
inline constexpr Value kUndefined = 0;

class Values {
 public:
  explicit Values(std::int32_t ranks);

  /// A new contribution of rank `origin`, never equal to another one, to the block `tag`.
  Value leaf(std::int32_t origin, std::int32_t tag);
  /// The left fold of `operands`; the same operands give the same id.
  Value reduce(std::span<const Value> operands, bool final);

  /// The block that all contributions on the tree belong to; -1 when they differ.
  std::int32_t tag(Value v) const noexcept { return nodes_[v].tag; }
  bool complete(Value v) const noexcept;  ///< every rank contributed
  bool doubled(Value v) const noexcept {
    return nodes_[v].doubled;
  }  ///< some rank contributed twice somewhere in the tree
  std::int32_t finals(Value v) const noexcept { return nodes_[v].finals; }  ///< final reduces on the tree
  bool is_final(Value v) const noexcept { return nodes_[v].final; }
  bool contains(Value v, std::int32_t origin) const noexcept;
  /// The ranks that are in more than one of `operands`.
  std::vector<std::int32_t> shared(std::span<const Value> operands) const;
  /// Ranks that did not contribute.
  std::vector<std::int32_t> missing(Value v) const;

 private:
  struct Node {
    std::uint32_t first_child = 0, child_count = 0;
    std::int32_t finals = 0, tag = -1;
    bool final = false, doubled = false;
  };
  std::uint64_t* bits(Value v) { return bits_.data() + static_cast<std::size_t>(v) * words_; }
  const std::uint64_t* bits(Value v) const { return bits_.data() + static_cast<std::size_t>(v) * words_; }
  Value new_node();
  std::size_t slot_of(std::span<const Value> operands, bool final) const;
  void grow();

  std::int32_t ranks_;
  std::size_t words_;
  std::vector<Node> nodes_;
  std::vector<std::uint64_t> bits_;  ///< words_ a node: who contributed
  std::vector<Value> children_;
  std::vector<Value> table_;  ///< open addressing, a power of two in size
  std::size_t reduced_ = 0;
};

}  // namespace unisono::plan

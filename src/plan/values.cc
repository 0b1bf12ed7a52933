#include "plan/values.h"

#include <algorithm>

namespace unisono::plan {

namespace {

std::size_t hash_of(std::span<const Value> operands, bool final) {
  std::uint64_t h = final ? 0x9e3779b97f4a7c15u : 0x2545f4914f6cdd1du;
  for (const Value v : operands) {
    h = (h ^ v) * 0xff51afd7ed558ccdu;
    h ^= h >> 32;
  }
  return static_cast<std::size_t>(h);
}

}  // namespace

Values::Values(std::int32_t ranks)
    : ranks_(ranks), words_((static_cast<std::size_t>(ranks) + 63) / 64), table_(256, kUndefined) {
  new_node();  // the undefined value
}

Value Values::new_node() {
  nodes_.emplace_back();
  bits_.resize(bits_.size() + words_, 0);
  return static_cast<Value>(nodes_.size() - 1);
}

Value Values::leaf(std::int32_t origin, std::int32_t tag) {
  const Value v = new_node();
  nodes_[v].tag = tag;
  bits(v)[static_cast<std::size_t>(origin) / 64] |= std::uint64_t{1} << (origin % 64);
  return v;
}

std::size_t Values::slot_of(std::span<const Value> operands, bool final) const {
  for (std::size_t slot = hash_of(operands, final);; slot++) {
    slot &= table_.size() - 1;
    const Value v = table_[slot];
    if (v == kUndefined) return slot;
    const Node& node = nodes_[v];
    const auto children = std::span(children_).subspan(node.first_child, node.child_count);
    if (node.final == final && std::ranges::equal(children, operands)) return slot;
  }
}

void Values::grow() {
  table_.assign(table_.size() * 2, kUndefined);
  for (std::size_t v = 1; v < nodes_.size(); v++) {
    const Node& node = nodes_[v];
    if (node.child_count == 0) continue;
    table_[slot_of(std::span(children_).subspan(node.first_child, node.child_count), node.final)] =
        static_cast<Value>(v);
  }
}

Value Values::reduce(std::span<const Value> operands, bool final) {
  if (const Value known = table_[slot_of(operands, final)]; known != kUndefined) return known;
  if (2 * ++reduced_ > table_.size()) grow();
  const std::size_t slot = slot_of(operands, final);
  const Value v = new_node();
  Node node;
  node.first_child = static_cast<std::uint32_t>(children_.size());
  node.child_count = static_cast<std::uint32_t>(operands.size());
  node.final = final;
  node.finals = final ? 1 : 0;
  node.tag = nodes_[operands.front()].tag;
  children_.insert(children_.end(), operands.begin(), operands.end());
  for (const Value operand : operands) {
    node.finals += nodes_[operand].finals;
    if (nodes_[operand].tag != node.tag) node.tag = -1;
    node.doubled |= nodes_[operand].doubled;
    for (std::size_t w = 0; w < words_; w++) {
      node.doubled |= (bits(v)[w] & bits(operand)[w]) != 0;
      bits(v)[w] |= bits(operand)[w];
    }
  }
  nodes_[v] = node;
  table_[slot] = v;
  return v;
}

bool Values::contains(Value v, std::int32_t origin) const noexcept {
  return (bits(v)[static_cast<std::size_t>(origin) / 64] >> (origin % 64) & 1) != 0;
}

bool Values::complete(Value v) const noexcept {
  for (std::int32_t r = 0; r < ranks_; r += 64) {
    const std::int32_t rest = ranks_ - r;
    const std::uint64_t all = rest >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << rest) - 1;
    if (bits(v)[static_cast<std::size_t>(r) / 64] != all) return false;
  }
  return true;
}

std::vector<std::int32_t> Values::shared(std::span<const Value> operands) const {
  std::vector<std::int32_t> ranks;
  for (std::int32_t r = 0; r < ranks_; r++) {
    if (std::ranges::count_if(operands, [&](Value v) { return contains(v, r); }) > 1) ranks.push_back(r);
  }
  return ranks;
}

std::vector<std::int32_t> Values::missing(Value v) const {
  std::vector<std::int32_t> ranks;
  for (std::int32_t r = 0; r < ranks_; r++) {
    if (!contains(v, r)) ranks.push_back(r);
  }
  return ranks;
}

}  // namespace unisono::plan

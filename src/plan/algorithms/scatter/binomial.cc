#include "plan/patterns.h"

/// Blocks go down a binomial tree: every message holds the blocks of a whole subtree.
///
///   0 -> 4 (4 5 6 7), 0 -> 2 (2 3), 4 -> 6 (6 7), 0 -> 1 (1), 2 -> 3 (3), 4 -> 5 (5), 6 -> 7 (7)
///
/// Few messages at the root, at the price of forwarding: for small blocks.
///
/// Source: folklore. Steps: ceil(log2 n). Bytes: (n-1)/n S at the root.
namespace unisono::plan::scatter {

Plan binomial(const Shape& shape) {
  PlanBuilder b(Collective::scatter, "binomial", shape);
  const BinomialTree tree(shape);
  const bool at_root = tree.parent < 0;
  const Ref below = at_root ? Ref{} : b.new_scratch_wrapped((shape.rank + 1) % shape.ranks, tree.size - 1);
  if (!at_root) b.recv(tree.parent, {PlanBuilder::out(0), below});
  for (const auto& child : tree.children) {
    const std::int32_t offset = child.position - tree.position - 1;
    b.send(child.rank, at_root ? b.wrapped(Space::in, child.rank, child.size)
                               : RefList(Ref{Space::scratch, -1, below.first + offset, child.size}));
  }
  if (at_root) b.copy(PlanBuilder::out(0), PlanBuilder::in(shape.rank));
  return std::move(b).build();
}

Cost binomial_cost(const Shape& shape) {
  return {BinomialTree::rounds(shape.ranks), 1.0 * (shape.ranks - 1) / shape.ranks};
}

}  // namespace unisono::plan::scatter

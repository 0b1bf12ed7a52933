#include "plan/patterns.h"

/// Blocks go up a binomial tree; a rank collects the blocks of its subtree and sends them on as one message.
///
///   7 -> 6 (7), 5 -> 4 (5), 6 -> 4 (6 7), 3 -> 2 (3), 1 -> 0 (1), 2 -> 0 (2 3), 4 -> 0 (4 5 6 7)
///
/// Few messages at the root, at the price of forwarding: for small blocks.
///
/// Source: folklore. Steps: ceil(log2 n). Bytes: the largest subtree below the root, about S/2.
namespace unisono::plan::gather {

Plan binomial(const Shape& shape) {
  PlanBuilder b(Collective::gather, "binomial", shape);
  const BinomialTree tree(shape);
  const bool at_root = tree.parent < 0;
  if (at_root) b.copy(PlanBuilder::out(shape.rank), PlanBuilder::in(0));
  // Blocks of the subtree behind the own one, in the order of positions.
  const Ref below = at_root ? Ref{} : b.new_scratch_wrapped((shape.rank + 1) % shape.ranks, tree.size - 1);
  for (auto child = tree.children.rbegin(); child != tree.children.rend(); ++child) {
    const std::int32_t offset = child->position - tree.position - 1;
    b.recv(child->rank, at_root ? b.wrapped(Space::out, child->rank, child->size)
                                : RefList(Ref{Space::scratch, -1, below.first + offset, child->size}));
  }
  if (!at_root) b.send(tree.parent, {PlanBuilder::in(0), below});
  return std::move(b).build();
}

Cost binomial_cost(const Shape& shape) {
  return {BinomialTree::rounds(shape.ranks), 1.0 * BinomialTree::largest_subtree(shape.ranks) / shape.ranks};
}

}  // namespace unisono::plan::gather

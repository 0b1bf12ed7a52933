#include "plan/patterns.h"

/// Whoever has the data passes it on: the number of ranks that have it doubles in each round.
///
///   0 -> 4    0 -> 2, 4 -> 6    0 -> 1, 2 -> 3, 4 -> 5, 6 -> 7        (positions counted from the root)
///
/// A rank sends to its largest subtree first. Best for small data.
///
/// Source: folklore. Steps: ceil(log2 n). Bytes: ceil(log2 n) S at the root.
namespace unisono::plan::broadcast {

Plan binomial(const Shape& shape) {
  PlanBuilder b(Collective::broadcast, "binomial", shape);
  const BinomialTree tree(shape);
  const bool at_root = tree.parent < 0;
  if (!at_root) b.recv(tree.parent, PlanBuilder::out(0));
  for (const auto& child : tree.children) b.send(child.rank, at_root ? PlanBuilder::in(0) : PlanBuilder::out(0));
  if (at_root) b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
  return std::move(b).build();
}

Cost binomial_cost(const Shape& shape) {
  return {BinomialTree::rounds(shape.ranks), 1.0 * BinomialTree::rounds(shape.ranks)};
}

}  // namespace unisono::plan::broadcast

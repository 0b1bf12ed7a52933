#include "plan/patterns.h"

/// Partial sums go up a binomial tree to the root.
///
///   7 -> 6 -> 4 -> 0, 5 -> 4, 3 -> 2 -> 0, 1 -> 0        (positions counted from the root)
///
/// A rank adds its own input and all its children's sums in one pass, in the order of ranks; partial sums live in
/// scratch, so no input is touched. Best for small vectors.
///
/// Source: folklore. Steps: ceil(log2 n). Bytes: S a rank.
namespace unisono::plan::reduce {

Plan binomial(const Shape& shape) {
  PlanBuilder b(Collective::reduce, "binomial", shape);
  if (shape.ranks == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
    return std::move(b).build();
  }
  const BinomialTree tree(shape);
  const bool at_root = tree.parent < 0;
  const bool leaf = tree.children.empty();
  const Ref into = at_root ? PlanBuilder::out(0) : leaf ? PlanBuilder::in(0) : b.new_scratch(0);
  const Ref sum = reduce_children(b, tree, PlanBuilder::in(0), into, at_root);
  if (!at_root) b.send(tree.parent, sum);
  return std::move(b).build();
}

Cost binomial_cost(const Shape& shape) { return {BinomialTree::rounds(shape.ranks), shape.ranks == 1 ? 0.0 : 1.0}; }

}  // namespace unisono::plan::reduce

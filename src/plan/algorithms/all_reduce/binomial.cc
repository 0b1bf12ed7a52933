#include "plan/patterns.h"

/// A reduction up a binomial tree to rank 0, then a broadcast down the same tree.
///
///   up:   7 -> 6 -> 4 -> 0, 5 -> 4, 3 -> 2 -> 0, 1 -> 0        down: the same arrows turned round
///
/// A rank adds its own input and all its children's sums in one pass, in the order of ranks. The plainest algorithm;
/// few messages in all (2 (n-1)), which helps where the network is shared.
///
/// Source: folklore. Steps: 2 ceil(log2 n). Bytes: at most ceil(log2 n) S a rank.
namespace unisono::plan::all_reduce {

Plan binomial(const Shape& shape) {
  PlanBuilder b(Collective::all_reduce, "binomial", shape);
  const Ref in = PlanBuilder::in(0), out = PlanBuilder::out(0);
  if (shape.ranks == 1) {
    b.copy(out, in);
    return std::move(b).build();
  }
  const BinomialTree tree(shape);
  const Ref sum = reduce_children(b, tree, in, out);
  if (tree.parent >= 0) {
    b.send(tree.parent, sum);
    b.recv(tree.parent, out);
  }
  for (const auto& child : tree.children) b.send(child.rank, out);
  return std::move(b).build();
}

Cost binomial_cost(const Shape& shape) {
  return {2 * BinomialTree::rounds(shape.ranks), 1.0 * BinomialTree::rounds(shape.ranks)};
}

}  // namespace unisono::plan::all_reduce

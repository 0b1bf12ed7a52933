#include "plan/patterns.h"

/// Sums go up two binomial trees, one over each half of the ranks; the two roots exchange theirs, both add them, and the
/// result goes down the same trees.
///
///   up:   3 -> 2 -> 0, 1 -> 0    7 -> 6 -> 4, 5 -> 4      then  0 <-> 4      down: the same arrows turned round
///
/// The halves are what one tree over all ranks has below rank 0 and below its largest child. That tree would have as
/// many messages, and one step more in which half of the ranks wait. Where the upper half is a single rank beside a larger
/// one (n = 3, 5, 9 ...) it is a child as any other: its input is there at once, and one pass adds up all.
///
/// A rank adds its own input and all its children's sums in one pass, and the lower half's sum is the left operand for
/// both roots, so both compute the same, in the order of ranks. The plainest algorithm; few messages in all (2 (n-1)),
/// which helps where the network, or a core, is shared.
///
/// Source: folklore. Steps: 2 ceil(log2 n) - 1, one more without an exchange. Bytes: at most ceil(log2 n) S a rank.
namespace unisono::plan::all_reduce {

namespace {

/// Whether there are two roots that exchange their sums.
constexpr bool two_roots(std::int32_t n) { return n == 2 || (n > 2 && n - BinomialTree::largest_child(n) > 1); }

/// The sum of the own half and then of both, in the order of ranks; on the root of a half.
void exchange(PlanBuilder& b, std::int32_t other, Ref own) {
  const Ref arrived = b.new_scratch(0);
  b.send(other, own);
  b.recv(other, arrived);
  const bool lower = b.rank() < other;
  b.reduce(PlanBuilder::out(0), {lower ? own : arrived, lower ? arrived : own}, true);
}

}  // namespace

Plan binomial(const Shape& shape) {
  PlanBuilder b(Collective::all_reduce, "binomial", shape);
  const Ref in = PlanBuilder::in(0), out = PlanBuilder::out(0);
  if (shape.ranks == 1) {
    b.copy(out, in);
    return std::move(b).build();
  }
  const std::int32_t upper = BinomialTree::largest_child(shape.ranks);
  const bool exchanges = two_roots(shape.ranks) && (shape.rank == 0 || shape.rank == upper);
  BinomialTree tree(shape);
  if (exchanges && shape.rank == 0) tree.children.erase(tree.children.begin());
  // The half's sum is on its way while the whole is written: not at the same place.
  const Ref into = exchanges && !tree.children.empty() ? b.new_scratch(0) : out;
  const Ref sum = reduce_children(b, tree, in, into, tree.parent < 0 && !exchanges);
  if (exchanges) {
    exchange(b, shape.rank == 0 ? upper : 0, sum);
  } else if (tree.parent >= 0) {
    b.send(tree.parent, sum);
    b.recv(tree.parent, out);
  }
  for (const auto& child : tree.children) b.send(child.rank, out);
  return std::move(b).build();
}

Cost binomial_cost(const Shape& shape) {
  const std::int32_t rounds = BinomialTree::rounds(shape.ranks);
  return {2 * rounds - (two_roots(shape.ranks) ? 1 : 0), 1.0 * rounds};
}

}  // namespace unisono::plan::all_reduce

#include "plan/patterns.h"

/// The vector in n blocks: a binomial scatter gives every rank its block, a circulant all-gather gives everybody the rest.
///
///   scatter, n = 4    root -> 2 (blocks 2 3), root -> 1 (block 1), 2 -> 3 (block 3)
///   all-gather        r gets r+1 from r+1, then r+2 r+3 from r+2; the root gets nothing, it has all
///
/// The root sends 2 S instead of log2 n S: for data that is large, but not large enough for a chain of many ranks.
///
/// Source: van de Geijn 1994 (Barnett et al.). Steps: at most 2 ceil(log2 n). Bytes: 2 (n-1)/n S at the root.
namespace unisono::plan::broadcast {

namespace {

// The blocks of the ranks in a subtree: block q belongs to rank q.
RefList blocks_of(const PlanBuilder& b, Space space, const BinomialTree::Child& child) {
  return b.wrapped(space, child.rank, child.size);
}

}  // namespace

Plan scatter_all_gather(const Shape& shape) {
  PlanBuilder b(Collective::broadcast, "scatter_all_gather", shape, shape.ranks);
  const BinomialTree tree(shape);
  const bool at_root = tree.parent < 0;
  if (at_root) b.copy(b.all(Space::out), b.all(Space::in));
  if (!at_root) b.recv(tree.parent, b.wrapped(Space::out, shape.rank, tree.size));
  for (const auto& child : tree.children) b.send(child.rank, blocks_of(b, at_root ? Space::in : Space::out, child));
  circulant_all_gather(b, PlanBuilder::out(shape.rank), shape.root);
  return std::move(b).build();
}

Cost scatter_all_gather_cost(const Shape& shape) {
  return {2 * ceil_log2(shape.ranks), 2.0 * (shape.ranks - 1) / shape.ranks};
}

}  // namespace unisono::plan::broadcast

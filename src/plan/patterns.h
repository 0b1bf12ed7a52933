#pragma once
/// Pieces that several algorithms are made of. Pure.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "plan/builder.h"
#include "plan/host_map.h"
#include "plan/registry.h"

namespace unisono::plan {

/// floor(log2 n) and ceil(log2 n), for n >= 1.
constexpr std::int32_t floor_log2(std::int32_t n) {
  return static_cast<std::int32_t>(std::bit_width(static_cast<std::uint32_t>(n))) - 1;
}
constexpr std::int32_t ceil_log2(std::int32_t n) {
  return static_cast<std::int32_t>(std::bit_width(static_cast<std::uint32_t>(n - 1)));
}
/// The largest power of two that is not above n, for n >= 1.
constexpr std::int32_t floor_power_of_two(std::int32_t n) {
  return static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint32_t>(n)));
}

/// A rank's place in the binomial tree over all ranks, counted from the root: position v is rank (root + v) mod n, its
/// parent is v without its lowest bit, and its subtree is the positions from v on that its lowest bit spans.
///
///                 0
///        +--------+-----+----+
///        4        2     1            n = 8
///     +--+--+     |
///     6     5     3
///     |
///     7
struct BinomialTree {
  struct Child {
    std::int32_t rank;      ///< real rank
    std::int32_t position;  ///< first position of its subtree
    std::int32_t size;      ///< ranks in its subtree
  };
  explicit BinomialTree(const Shape& shape);

  std::int32_t position = 0;
  std::int32_t size = 1;        ///< ranks in the own subtree, own rank included
  std::int32_t parent = -1;     ///< real rank; -1 at the root
  std::vector<Child> children;  ///< largest subtree first: the longest way down starts first

  /// Rounds from the root to the last leaf; also the most that any rank of n sends and receives on the tree, its parent's
  /// message included.
  static constexpr std::int32_t rounds(std::int32_t n) { return ceil_log2(n); }
  /// The position of the root's first child, n > 1: all positions from it on are its subtree.
  static constexpr std::int32_t largest_child(std::int32_t n) { return 1 << floor_log2(n - 1); }
  /// Ranks in the largest subtree below the root; 0 for one rank.
  static constexpr std::int32_t largest_subtree(std::int32_t n) {
    return n == 1 ? 0 : std::max(n - largest_child(n), largest_child(n) / 2);
  }
};

/// Reduces every child's partial result and `own` into `into`, in the order of ranks, and returns where the sum is:
/// `own` itself where there is nothing to add. `into` may be `own`; `final`: this is the whole sum.
Ref reduce_children(PlanBuilder& b, const BinomialTree& tree, Ref own, Ref into, bool final);

/// The ring's reduce-scatter over n blocks of `in`: afterwards block rank() is complete in `into`. Needs n > 1.
void ring_reduce_scatter(PlanBuilder& b, std::initializer_list<Ref> into);
/// The ring's all-gather into `out`; the own block is read from `own`, and nobody writes out[rank()].
void ring_all_gather(PlanBuilder& b, Ref own);

/// Every rank sends each block of `in` to its owner, who folds them in the order of ranks into `into`: block rank() is then complete.
/// Needs n > 1.
void direct_reduce_scatter(PlanBuilder& b, Ref into);

/// Stages that leave out the rank that needs no place: all ranks but `without`, and where rank q is among them.
std::vector<std::int32_t> all_ranks_but(std::int32_t ranks, std::int32_t without);
constexpr std::int32_t place_without_own(std::int32_t q, std::int32_t without) { return q < without ? q : q - 1; }

/// The other ranks on this rank's node, from the one behind it on, so that no two ranks start with the same one.
std::vector<std::int32_t> neighbours_of(const HostMap& nodes, std::int32_t rank);
/// Everybody's part of `block` on this rank's node, in the order of ranks: its own input, and the neighbours' stages.
std::vector<Ref> parts_on_node(const PlanBuilder& b, const HostMap& nodes, std::int32_t block);
/// What staged_nodes is where there is one node: `flat` by that name.
Plan staged_nodes_of(Plan flat);

/// Shared plans in which every rank exposes the same, or the root alone does, or all others do.
void share_all(PlanBuilder& b, std::uint8_t exposed);
void share_root(PlanBuilder& b, std::uint8_t exposed);
void share_all_but_root(PlanBuilder& b, std::uint8_t exposed);
/// `shared`, a shared plan that only reads others' buffers, for buffers anywhere, under the name single_copy: the ranks read each other's memory
/// through the kernel, so that every byte is copied once and not twice, and no line is handed to and fro between the caches of two
/// cores. It wins where these cores share no cache, or the data lie in memory; a page costs the kernel about as much as its copy. Who
/// waits for a rank that gets a long block from it may write a part of that to the rank's memory (engine/operation_get.cc): a plan does not see that.
Plan single_copy_of(Plan shared);
/// Waits for the signal of every other rank, starting at the one before.
void wait_for_others(PlanBuilder& b, std::uint16_t channel);

/// The strides of the circulant algorithms for n ranks: n halved, rounding up, until 1 (17: 17 9 5 3 2 1).
std::vector<std::int32_t> circulant_strides(std::int32_t n);
/// As ring_reduce_scatter, in ceil(log2 n) rounds for any n.
void circulant_reduce_scatter(PlanBuilder& b, std::initializer_list<Ref> into);
/// As ring_all_gather, in ceil(log2 n) rounds for any n. A rank `complete` has all blocks already: nothing is sent to it.
void circulant_all_gather(PlanBuilder& b, Ref own, std::int32_t complete = -1);

}  // namespace unisono::plan

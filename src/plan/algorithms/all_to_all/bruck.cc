#include "plan/patterns.h"

/// A block that has to go d ranks ahead travels by the bits of d: in round i all blocks whose distance has bit i go 2^i
/// ranks ahead, in one message.
///
///   n = 8     round 1: distances 1 3 5 7 by 1      round 2: 2 3 6 7 by 2      round 3: 4 5 6 7 by 4
///
/// log2 n messages instead of n-1, at the price of forwarding: for tiny blocks. Blocks pass through ranks that do not know
/// their size, hence counts must be equal. A block's last hop lands in the output; there is no rotation at either end.
///
/// Source: Bruck, Ho, Kipnis, Upfal, Weathersby, IEEE TPDS 1997. Steps: ceil(log2 n). Bytes: about S log2(n) / 2 a rank.
namespace unisono::plan::all_to_all {

Plan bruck(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::all_to_all, "bruck", shape);
  b.copy(PlanBuilder::out(r), PlanBuilder::in(r));
  // at[d]: where the block is that still belongs to distance d in this rank's hands.
  std::vector<Ref> at;
  for (std::int32_t d = 0; d < n; d++) at.push_back(PlanBuilder::in((r + d) % n));
  for (std::int32_t hop = 1; hop < n; hop *= 2) {
    RefList leaving, arriving;
    for (std::int32_t d = hop; d < n; d++) {
      if ((d & hop) == 0) continue;
      leaving.add(at[static_cast<std::size_t>(d)]);
      const std::int32_t travelled = d & (2 * hop - 1);  // after this hop
      const std::int32_t origin = b.around(r - travelled);
      const bool arrived = travelled == d;
      const Ref place = arrived ? PlanBuilder::out(origin) : b.new_scratch(origin * n + (origin + d) % n);
      arriving.add(place);
      at[static_cast<std::size_t>(d)] = place;
    }
    b.send((r + hop) % n, leaving);
    b.recv(b.around(r - hop), arriving);
  }
  return std::move(b).build();
}

Cost bruck_cost(const Shape& shape) {
  std::int64_t blocks = 0;
  for (std::int32_t d = 1; d < shape.ranks; d++) blocks += std::popcount(static_cast<std::uint32_t>(d));
  return {ceil_log2(shape.ranks), static_cast<double>(blocks) / shape.ranks};
}

}  // namespace unisono::plan::all_to_all

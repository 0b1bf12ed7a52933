#include "plan/patterns.h"

/// In round i, ranks whose numbers differ in bit i exchange their partial sums and both add them: after log2 n rounds
/// everybody has everything.
///
///   n = 4     0 <-> 1   2 <-> 3          then      0 <-> 2   1 <-> 3
///   n = 6     1 -> 0, 3 -> 2 (fold); 0 2 4 5 do the above; 0 -> 1, 2 -> 3 (unfold)
///
/// When n is not a power of two, the first ranks pair up: the odd one hands its input to the even one and gets the
/// result from it. The lower ranks' sum is always the left operand, so all ranks compute the same tree, in rank order.
///
/// Source: folklore; the fold as in Thakur, Rabenseifner and Gropp, "Optimization of collective communication
/// operations in MPICH", 2005. Steps: floor(log2 n), and 2 more unless n is a power of two. Bytes: floor(log2 n) S a
/// rank, and S more for the even rank of a pair.
namespace unisono::plan::all_reduce {

namespace {

struct Folded {
  std::int32_t pairs;  ///< how many pairs of ranks take part as one
  std::int32_t rank_of(std::int32_t member) const { return member < pairs ? 2 * member : member + pairs; }
  std::int32_t member_of(std::int32_t rank) const { return rank < 2 * pairs ? rank / 2 : rank - pairs; }
};

// Where the sum goes next: the output and one scratch block in turn, so that it is never written while it is being
// sent.
class Sum {
 public:
  Sum(PlanBuilder& b, std::int32_t writes) : spare_(b.new_scratch(0)), left_(writes) {}
  Ref next() { return --left_ % 2 == 0 ? PlanBuilder::out(0) : spare_; }

 private:
  Ref spare_;
  std::int32_t left_;
};

}  // namespace

Plan recursive_doubling(const Shape& shape) {
  const std::int32_t n = shape.ranks, r = shape.rank;
  PlanBuilder b(Collective::all_reduce, "recursive_doubling", shape);
  if (n == 1) {
    b.copy(PlanBuilder::out(0), PlanBuilder::in(0));
    return std::move(b).build();
  }
  const std::int32_t rounds = floor_log2(n), members = floor_power_of_two(n);
  const Folded folded{n - members};
  const bool paired = r < 2 * folded.pairs;
  if (paired && r % 2 == 1) {
    b.send(r - 1, PlanBuilder::in(0));
    b.recv(r - 1, PlanBuilder::out(0));
    return std::move(b).build();
  }

  Sum sum(b, rounds + (paired ? 1 : 0));
  Ref own = PlanBuilder::in(0);
  if (paired) {
    const Ref other = b.new_scratch(0);
    b.recv(r + 1, other);
    const Ref to = sum.next();
    b.reduce(to, {own, other}, false);
    own = to;
  }
  const std::int32_t member = folded.member_of(r);
  for (std::int32_t round = 0; round < rounds; round++) {
    const std::int32_t peer = folded.rank_of(member ^ (1 << round));
    const Ref other = b.new_scratch(0);
    b.send(peer, own);
    b.recv(peer, other);
    const Ref to = sum.next();
    const bool final = round + 1 == rounds;
    if (peer < r) {
      b.reduce(to, {other, own}, final);
    } else {
      b.reduce(to, {own, other}, final);
    }
    own = to;
  }
  if (paired) b.send(r + 1, own);
  return std::move(b).build();
}

Cost recursive_doubling_cost(const Shape& shape) {
  const std::int32_t rounds = floor_log2(shape.ranks);
  const bool fold = floor_power_of_two(shape.ranks) != shape.ranks;
  return {rounds + (fold ? 2 : 0), 1.0 * rounds + (fold ? 1 : 0)};
}

}  // namespace unisono::plan::all_reduce

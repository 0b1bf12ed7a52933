#include <algorithm>
#include <vector>

#include "plan/patterns.h"

/// Ranks 2i and 2i+1 are a pair. Everybody reads from every second rank of the others only, but what that has for both ranks of its pair, and leaves on
/// its stage what is for its partner; what partners have for each other goes over their stages, too. With an odd number of ranks the last one is
/// alone: it reads from all, and of each pair the even rank reads from it.
///
///   0, of 0..3   copy own | put 1 | get its 0 from 2, put its 1 from 2 | signal 0 | wait 1: get what it has put for 0 | wait 2
///
/// A stage has a place for each pair. Nobody has to wait for more than its partner and those that read from its input, and everybody may begin
/// before others have come: where partners take turns on a core, a call has two turns on each, and single_copy three. A call into the
/// kernel costs more than passing on some KiB inside a core, so half as many are worth the further copy.
///
/// Source: hierarchical all_to_all with a core for a node (folklore). Phases: 1. From others' buffers, to and from stages: about 3/2 S a rank.
namespace unisono::plan::all_to_all {

namespace {

/// One rank's view.
class Pairs {
 public:
  explicit Pairs(const Shape& shape)
      : n_(shape.ranks),
        rank_(shape.rank),
        pair_(shape.rank / 2),
        pairs_((shape.ranks + 1) / 2),
        b_(Collective::all_to_all, "single_copy_pairs", shape) {}

  Plan build() && {
    if (n_ > 1) {
      share_all(b_, kExposesIn);
      stage_extents();
    }
    b_.copy(PlanBuilder::out(rank_), PlanBuilder::in(rank_));
    if (n_ == 1) return std::move(b_).build();
    if (has_partner()) b_.put(pair_, PlanBuilder::in(partner()));
    for_sources(rank_, [&](std::int32_t q) { fetch(q); });
    b_.signal(0);
    if (has_partner()) get_from_partner();
    wait_for_readers();
    return std::move(b_).build();
  }

 private:
  std::int32_t partner() const { return rank_ ^ 1; }
  bool has_partner() const { return partner() < n_; }
  /// The other pairs, from the next one on.
  template <class Visit>
  void for_other_pairs(Visit visit) const {
    for (std::int32_t i = 1; i < pairs_; i++) visit((pair_ + i) % pairs_);
  }
  /// Whom of each other pair rank `reader` of this pair reads from.
  template <class Visit>
  void for_sources(std::int32_t reader, Visit visit) const {
    for_other_pairs([&](std::int32_t pair) {
      for (const std::int32_t q : {2 * pair, 2 * pair + 1})
        if (q < n_ && (!has_partner() || q % 2 == reader % 2)) visit(q);
    });
  }

  /// What lies on place `pair` is for the partner, whoever it is from. Places that nobody uses have any extent.
  void stage_extents() {
    std::vector<std::int32_t> extents;
    const std::int32_t to = has_partner() ? partner() : rank_;
    for (std::int32_t pair = 0; pair < pairs_; pair++) {
      const std::int32_t from = pair == pair_ ? rank_ : std::min(2 * pair + rank_ % 2, n_ - 1);
      extents.push_back(from * n_ + to);
    }
    b_.stage_extents(std::move(extents));
  }

  /// One behind the other, as they lie there: what runs the plan may read both at once.
  void fetch(std::int32_t q) {
    for (const std::int32_t to : {2 * pair_, 2 * pair_ + 1}) {
      if (to == rank_) b_.get(PlanBuilder::out(q), b_.in_of(q, rank_));
      if (to == partner() && has_partner()) b_.put(q / 2, b_.in_of(q, to));
    }
  }

  void get_from_partner() {
    b_.wait(partner(), 0);
    b_.get(PlanBuilder::out(partner()), partner(), pair_);
    for_sources(partner(), [&](std::int32_t q) { b_.get(PlanBuilder::out(q), partner(), q / 2); });
  }

  /// Those for which this rank is a source: of each other pair the one of the same parity, and whoever is alone.
  void wait_for_readers() {
    for_other_pairs([&](std::int32_t pair) {
      const bool alone = 2 * pair + 1 == n_;
      const std::int32_t reader = alone ? 2 * pair : 2 * pair + rank_ % 2;
      b_.wait(reader, 0);
    });
  }

  std::int32_t n_, rank_, pair_, pairs_;
  PlanBuilder b_;
};

}  // namespace

Plan single_copy_pairs(const Shape& shape) { return Pairs(shape).build(); }

Cost single_copy_pairs_cost(const Shape& shape) {
  const std::int32_t n = shape.ranks, whole = n / 2;
  if (n == 1) return {};
  // To the partner and from it a block each, from each other pair two blocks and the partner's one; of who is alone, the even rank has both.
  const std::int32_t blocks = n % 2 == 0 ? 3 * whole - 1 : 3 * whole + 1;
  return {1, static_cast<double>(blocks) / n};
}

}  // namespace unisono::plan::all_to_all

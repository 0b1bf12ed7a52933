/// A copy between this rank's memory and that of one which waits for it: both do it (joint_copy.h).

#include <algorithm>

#include "base/within.h"
#include "engine/operation.h"

namespace unisono::engine {

using plan::Ref;
using plan::Space;
using plan::Step;

namespace {
/// Blocks of so many bytes for each rank that waits to be helped: of smaller ones little is left to do when the other knows of it, and a line that goes to
/// and fro between two caches for it costs more than that saves.
constexpr std::size_t kOffered = 256 << 10;
/// Who comes when less than this part of it is left does not begin: the lines that it would touch lie in the other's cache.
constexpr std::uint64_t kLate = 4;
}  // namespace

/// Whether a copy to or from a peer's buffer is one that the peer may do a part of: then it is offered to it.
bool Operation::offer(const Slot& slot, const Step& step) {
  Domain& domain = *ground_.domain;
  const Ref& d = plan().dst(step)[0];
  const Ref& s = plan().src(step)[0];
  const bool put = d.space == Space::peer_out && s.space == Space::in;
  const bool get = s.space == Space::peer_in && d.space == Space::out;
  if (reads_peers_ || (!put && !get) || d.count != 1) return false;
  const Part to = part(slot, d, d.first), from = part(slot, s, s.first);
  const std::size_t bytes = std::min(to.bytes, from.bytes);
  // Where this rank's buffer is not in its segment nobody else can get at it.
  if ((put ? own_in_ : own_out_).offset == 0 || bytes < kOffered * static_cast<std::size_t>(ground_.size - 1))
    return false;
  const Ref& there = put ? d : s;
  const Whereabouts& where = peers_[there.rank].where;
  const PeerBlock block = peer_block(plan(), bound_->binding, there.space, there.rank, there.first);
  Offer what;
  what.mine = static_cast<std::uint64_t>((put ? from : to).data - domain.own(0));
  what.theirs = (put ? where.output : where.input) + static_cast<std::uint64_t>(block.offset);
  what.bytes = bytes;
  what.partner = helper_ = there.rank;
  what.to_partner = put;
  what.around = large_;
  offered_.emplace(domain.offer(sequence_, what));
  offered_->open(from.data, to.data, bytes, large_);
  return true;
}

/// The copy that was offered. Nothing is done while the other is at what is left.
Operation::Done Operation::run_offered() {
  const bool any = offered_->copy(kPiece);
  if (!offered_->all_copied()) return any ? Done::some : Done::nothing;
  offered_.reset();
  helper_ = -1;
  piece_ = {};
  return Done::all;
}

/// Does a part of what rank q, for which this one waits, has to copy to or from here; whether there was anything.
bool Operation::help(int q) {
  if (!plan().joint || reads_peers_ || !peers_[q].arrived) return false;
  Domain& domain = *ground_.domain;
  if (helped_ != q) {
    OfferedCopy* const offered = domain.offered(q, sequence_);
    if (offered == nullptr) return false;
    helped_ = q;
    helping_.reset();
    const Offer& what = offered->offer;
    // Where that makes no sense, or cannot be mapped, q does it all.
    const auto room = static_cast<std::size_t>((what.to_partner ? bound_->binding.out : bound_->binding.in).total());
    std::byte* const here = domain.own(what.theirs);
    if (!within(here, what.bytes, what.to_partner ? request_.out : request_.in, room)) return false;
    std::byte* const there = domain.buffer(q, what.mine, what.bytes, true);
    if (there == nullptr) return false;
    helping_.emplace(offered->copy, JointCopy::Side::other);
    if (helping_->left() < what.bytes / kLate) {
      helping_.reset();
      return false;
    }
    helping_->open(what.to_partner ? there : here, what.to_partner ? here : there, what.bytes, what.around);
  }
  if (!helping_ || !helping_->copy(kPiece)) return false;
  if (helping_->all_copied()) domain.wake(q);
  return true;
}

}  // namespace unisono::engine

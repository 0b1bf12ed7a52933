/// A copy between this rank's memory and that of one which waits for it, or a reduction: who waits does a part of it (joint_work.h).

#include <algorithm>

#include "base/within.h"
#include "engine/operands.h"
#include "engine/operation.h"

namespace unisono::engine {

using plan::Ref;
using plan::Space;
using plan::Step;

namespace {
/// Blocks of so many bytes for each rank that waits to be helped: of smaller ones little is left to do when the other knows of it, and a line that goes to
/// and fro between two caches for it costs more than that saves.
constexpr std::size_t kOffered = 256 << 10;
/// Bytes of a slice of a block that is reduced.
constexpr std::uint64_t kReduced = 128 << 10;
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
  if ((!put && !get) || d.count != 1) return false;
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
  what.slice = JointCopy::slice_for(bytes);
  what.partner = helper_ = there.rank;
  what.to_partner = put;
  what.around = large_;
  offered_.emplace(domain.offer(sequence_, what), JointCopy::Side::owner);
  offered_->open(from.data, to.data, bytes, large_);
  return true;
}

/// The copy that was offered. Nothing is done while the other is at what is left.
Operation::Done Operation::run_offered() {
  const bool any = joint_gets_ ? get_slices() : offered_->copy(kPiece, copies_);
  if (!offered_->all_finished()) return any ? Done::some : Done::nothing;
  offered_.reset();
  get_to_ = nullptr;
  helper_ = -1;
  piece_ = {};
  return Done::all;
}

/// While this rank waits for rank q it does a part of what q has to do, or of what others have; whether there was anything.
bool Operation::help(const Slot& slot, int q) {
  if (joint_copies_) return help_copy(q);
  if (joint_gets_) return help_get(q);
  if (joint_reduction_ == nullptr) return false;
  for (int k = 0; k < ground_.size; k++)
    if (help_reduction(slot, (q + k) % ground_.size)) return true;
  return false;
}

/// What rank q has to copy to or from here.
bool Operation::help_copy(int q) {
  if (!peers_[q].arrived) return false;
  Domain& domain = *ground_.domain;
  if (helped_ != q) {
    OfferedWork* const offered = domain.offered(q, sequence_);
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
    helping_.emplace(offered->work, JointCopy::Side::other);
    if (helping_->left() < what.bytes / kLate) {
      helping_.reset();
      return false;
    }
    helping_->open(what.to_partner ? there : here, what.to_partner ? here : there, what.bytes, what.around);
  }
  if (!helping_ || !helping_->copy(kPiece, copies_)) return false;
  if (helping_->all_finished()) domain.wake(q);
  return true;
}

/// This rank's block, of which others may do a part. Where they are at what is left, this one helps them.
Operation::Done Operation::run_joint_reduction(const Slot& slot) {
  if (!reducing_) {
    const Ref& block = plan().dst(*joint_reduction_)[0];
    Offer what;
    what.partner = Offer::kAnyone;
    what.bytes = part(slot, block, block.first).bytes;
    what.slice = JointWork::slice_of(what.bytes, kReduced);
    reducing_.emplace(ground_.domain->offer(sequence_, what), JointWork::Side::owner);
  }
  if (const auto piece = reducing_->claim(kPiece / kReduced)) {
    reduce_jointly(slot, ground_.rank, *piece);
    reducing_->finish(*piece);
    return Done::some;
  }
  if (!reducing_->all_finished()) return help(slot, ground_.rank) ? Done::some : Done::nothing;
  reducing_.reset();
  return Done::all;
}

/// A piece of rank q's block, which differs from this rank's in nothing but its number (the verifier proves that).
void Operation::reduce_jointly(const Slot& slot, int q, const JointWork::Piece& piece) {
  const Step& step = *joint_reduction_;
  Operands memory(step.dst_count + step.src_count);
  find_operands(slot, step, q - ground_.rank, piece.at, memory.all());
  reduce_operands(step, memory.all(), piece.bytes);
}

bool Operation::help_reduction(const Slot& slot, int q) {
  Domain& domain = *ground_.domain;
  OfferedWork* const offered = q != ground_.rank ? domain.offered(q, sequence_) : nullptr;
  if (offered == nullptr) return false;
  JointWork work(offered->work, JointWork::Side::other);
  if (work.left() == 0) return false;
  domain.helps(q);  // before the claim: whoever waits for the piece can name this rank
  const auto piece = work.claim(kPiece / kReduced);
  if (piece) {
    reduce_jointly(slot, q, *piece);
    work.finish(*piece);
    if (work.all_finished()) domain.wake(q);
  }
  domain.helps(-1);
  return piece.has_value();
}

}  // namespace unisono::engine

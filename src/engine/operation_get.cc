/// A copy from another process's memory, through the kernel, of which that process does a part while it waits (joint_work.h): it writes to this one's.

#include <algorithm>

#include "engine/operation.h"

namespace unisono::engine {

using plan::Space;

namespace {
/// Blocks of so many bytes for each rank that waits to be helped. What the helper has written lies in its core's cache, and whoever uses shorter ones right away has to have it
/// from there, which takes longer than it saves (docs/design/0008).
constexpr std::size_t kLeastHelped = 768 << 10;
}  // namespace

/// Whether rank q has nothing to copy in this operation: it is no root, or its output lies in its input.
bool Operation::only_waits(int q) const {
  if (q != plan().shape.root) return true;
  const Whereabouts& where = peers_[q].where;
  const PeerBlock all = peer_block(plan(), bound_->binding, Space::peer_in, q, 0);
  return !where.opens_any() && where.output - where.input < static_cast<std::uint64_t>(all.total);
}

/// Whether the copy that step `index` is, from a peer's input, is one that the peer may do a part of: then it is offered to it. Not where the peer has as much to copy itself, nor where it would not
/// know which one of several it is.
bool Operation::offer_get(std::uint32_t index, std::byte* to, const Part& from) {
  Domain& domain = *ground_.domain;
  const plan::Shape& shape = plan().shape;
  if (static_cast<std::int32_t>(index) != bound_->compiled->only_get) return false;
  const std::size_t waiting = shape.rank == shape.root ? 1 : static_cast<std::size_t>(shape.ranks - 1);
  if (from.bytes < kLeastHelped * waiting || !only_waits(from.peer) || !domain.writes_to(from.peer)) return false;
  const plan::Ref& source = plan().src(plan().steps[index])[0];
  const PeerBlock block = peer_block(plan(), bound_->binding, Space::peer_in, source.rank, source.first);
  get_to_ = to;
  get_from_ = from;
  helper_ = from.peer;
  Get what;
  what.partner = from.peer;
  what.to = to;
  what.from = static_cast<std::uint64_t>(block.offset);
  what.bytes = from.bytes;
  offered_.emplace(domain.offer_get(sequence_, what), JointCopy::Side::owner);
  return true;
}

/// This rank's part of it; whether anything was copied.
bool Operation::get_slices() {
  return offered_->move(kPiece, Landing::kAtOnce, [&](const JointWork::Piece& piece) {
    return fetch(get_to_ + piece.at, get_from_, piece.at, piece.bytes);
  });
}

/// A part of what rank q, for which this rank waits, gets from here.
bool Operation::help_get(int q) {
  Domain& domain = *ground_.domain;
  if (!peers_[q].arrived) return false;
  if (helped_ != q) {
    OfferedGet* const offered = puts_fail_ || !domain.writes_to(q) ? nullptr : domain.offered_get(q, sequence_);
    if (offered == nullptr) return false;
    helped_ = q;
    helping_.emplace(offered->work, JointCopy::Side::other);
    put_to_ = offered;
    const auto room = static_cast<std::uint64_t>(bound_->binding.in.total());
    const std::uint64_t from = offered->from, bytes = helping_->bytes();
    if (bytes > room || from > room - bytes || helping_->slices() > Landing::kMostSlices)
      helping_.reset();  // that makes no sense: q does it alone
    else
      put_from_ = request_.in + from;
  }
  if (!helping_) return false;
  const bool any = helping_->move(kPiece, Landing::kAtOnce, [&](const JointWork::Piece& piece) {
    const auto to = put_to_->to.areas(piece, helping_->slice());
    puts_fail_ = domain.write_peer(q, to, put_from_ + piece.at, piece.bytes) != 0;
    return !puts_fail_;
  });
  // Some memory, that of devices for one, can be written to by its own process alone: that does what is left.
  if (puts_fail_) helping_.reset();
  if (puts_fail_ || (any && helping_->all_finished())) domain.wake(q);
  return any;
}

}  // namespace unisono::engine

/// A copy from another process's memory, through the kernel, of which that process does a part while it waits (joint_work.h): it writes to this one's.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "engine/operation.h"

namespace unisono::engine {

using plan::Space;

PeerBlock got_block(const Bound& bound) noexcept {
  if (bound.compiled->only_get < 0) return {};
  const plan::Ref& source = bound.compiled->got();
  const PeerBlock block = peer_block(bound.plan(), bound.binding, Space::peer_in, source.rank, source.first);
  return reduces(bound.plan().collective) && block.bytes > kMostSummed ? PeerBlock{} : block;
}

/// Who has what this rank gets hears of the offer with its announcement: all that is said here is known before anybody has come. If a shared plan runs instead, nobody looks for it.
void Operation::offer_get(Whereabouts& mine) {
  if (!reads_peers_ && !rival_runs_.value_or(false)) return;
  const Bound& gets = reads_peers_ ? *bound_ : prepared().rival;
  const PeerBlock block = got_block(gets);
  if (block.bytes == 0) return;
  const plan::Step& step = gets.plan().steps[static_cast<std::size_t>(gets.compiled->only_get)];
  const int partner = gets.compiled->got().rank;
  Domain& domain = *ground_.domain;
  if (!domain.writes_to(partner)) return;
  Get what;
  what.partner = helper_ = partner;
  what.to = request_.out + gets.binding.out.offset[static_cast<std::size_t>(gets.plan().dst(step)[0].first)];
  what.from = static_cast<std::uint64_t>(block.offset);
  what.bytes = static_cast<std::uint64_t>(block.bytes);
  what.slice = step.op == plan::OpCode::reduce ? Landing::slice_for_sums(what.bytes) : Landing::slice_for(what.bytes);
  offered_.emplace(domain.offer_get(sequence_, what), JointCopy::Side::owner);
  mine.flags |= Whereabouts::kOffersGet;
}

/// Whether rank q has nothing to copy in this operation: it is no root, or its output lies in its input. Who does copy comes late, and helps nobody: both know that, and the copy goes
/// on as any other.
bool Operation::only_waits(int q) const {
  if (q != plan().shape.root) return true;
  const Whereabouts& where = peers_[q].where;
  const PeerBlock all = peer_block(plan(), bound_->binding, Space::peer_in, q, 0);
  return !where.opens_any() && where.output - where.input < static_cast<std::uint64_t>(all.total);
}

bool Operation::is_offered_get(std::uint32_t step) const {
  return joint_gets_ && offered_ && static_cast<std::int32_t>(step) == bound_->compiled->only_get &&
         only_waits(helper_);
}

/// What was offered begins.
Operation::Done Operation::run_get(std::byte* to, const Part& from) {
  get_to_ = to;
  get_from_ = from;
  return run_offered();
}

/// This rank's part of it; whether anything was done.
bool Operation::get_slices() {
  if (reduces(plan().collective))
    return offered_->move(kPiece, 1, [&](const JointWork::Piece& piece) {
      std::byte* const fetched = ground_.scratch->data();
      if (!fetch(fetched, get_from_, piece.at, piece.bytes)) return false;
      sum_of_two(get_to_ + piece.at, request_.in + piece.at, fetched, piece.bytes);
      return true;
    });
  return offered_->move(kPiece, Landing::kAtOnce, [&](const JointWork::Piece& piece) {
    return fetch(get_to_ + piece.at, get_from_, piece.at, piece.bytes);
  });
}

/// What the reduce does with this rank's operand and the other's, whichever of the two ranks this is.
void Operation::sum_of_two(std::byte* to, const std::byte* own, const std::byte* others, std::size_t bytes) {
  const bool first = ground_.rank == 0;
  const void* const sources[] = {first ? own : others, first ? others : own};
  const kernels::Reduce what{prepared().dtype, prepared().op, prepared().op == ReduceOp::avg ? ground_.size : 1};
  kernels::reduce(what, to, nullptr, sources, bytes / size_of(what.dtype));
}

/// A part of what rank q, for which this rank waits, gets from here.
bool Operation::help_get(int q) {
  if (helped_ == q ? !helping_ : !finds_offered_get(q)) return false;
  Domain& domain = *ground_.domain;
  const bool sums = reduces(plan().collective);
  const bool any = helping_->move(kPiece, sums ? 1 : Landing::kAtOnce, [&](const JointWork::Piece& piece) {
    const std::byte* from = put_from_ + piece.at;
    if (sums) {
      std::byte* const sum = ground_.scratch->data();
      puts_fail_ = domain.read_peer(q, sum, announced_at(Space::peer_in, q) + piece.at, piece.bytes) != 0;
      if (puts_fail_) return false;
      sum_of_two(sum, from, sum, piece.bytes);
      from = sum;
    }
    const int error = domain.write_peer(q, put_to_->to.areas(piece, helping_->slice()), from, piece.bytes);
    puts_fail_ = error != 0;
    // In place the root's operand has lain there.
    if (sums && error == EIO)
      fail(Status::system(fmt::format("rank {}'s memory could be written to in part only (process_vm_writev)", q),
                          error));
    return !puts_fail_;
  });
  // Some memory, that of devices for one, can be written to by its own process alone: that does what is left.
  if (puts_fail_ || (any && helping_->all_finished())) domain.wake(q);
  if (puts_fail_ || !any) helping_.reset();  // nor is it looked for again, where the other is just writing
  return any;
}

bool Operation::finds_offered_get(int q) {
  Domain& domain = *ground_.domain;
  if (!peers_[q].arrived || (peers_[q].where.flags & Whereabouts::kOffersGet) == 0) return false;
  helped_ = q;
  helping_.reset();
  if (puts_fail_ || !domain.writes_to(q) || !only_waits(ground_.rank)) return false;
  OfferedGet* const offered = domain.offered_get(q, sequence_);
  if (offered == nullptr) return false;
  helping_.emplace(offered->work, JointCopy::Side::other);
  put_to_ = offered;
  const auto room = static_cast<std::uint64_t>(bound_->binding.in.total());
  const std::uint64_t from = offered->from, bytes = helping_->bytes();
  const bool too_long = reduces(plan().collective) && helping_->slice() > kFetched;
  if (bytes > room || from > room - bytes || helping_->slices() > Landing::kMostSlices || too_long)
    helping_.reset();  // that makes no sense: q does it alone
  else
    put_from_ = request_.in + from;
  return helping_.has_value();
}

}  // namespace unisono::engine

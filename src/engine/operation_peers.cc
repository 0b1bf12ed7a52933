/// What the others have announced: who is here, whose buffers may be touched, which plan that makes it, who is missing.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "engine/messenger.h"
#include "engine/operation.h"

namespace unisono::engine {

using plan::OpCode;
using plan::Space;
using plan::Step;

/// Whether rank q has begun this operation; finds out on the way whether it calls the same thing.
bool Operation::peer_arrived(int q) {
  Peer& peer = peers_[q];
  if (peer.arrived) return true;
  const Line* line = ground_.domain->line(q, sequence_);
  if (line == nullptr) return false;
  if (line->signature != prepared().signature) {
    fail(Discord{q, sequence_, prepared().signature, line->signature});
    return false;
  }
  std::memcpy(&peer.where, line->payload, sizeof peer.where);
  peer.stage = nullptr;
  if (peer.where.stage != 0) {
    const Compiled& staged = *prepared().usual.compiled;  // others have no stage
    peer.stage = ground_.domain->stage(q, peer.where.stage, staged.returns || staged.exchanges);
    if (peer.stage == nullptr) {
      fail(Status::internal(
          fmt::format("cannot map rank {}'s stage: is memory or the number of mappings at its limit?", q)));
      return false;
    }
  }
  peer.arrived = true;
  return true;
}

/// Whether a rank that waits on the same processor is to do its part first. By turns all of them go one after another and one before another, as each does
/// with its blocks: so what was touched last on that processor is touched first again. It is a favour, for a few looks: nobody's work depends on it.
bool Operation::gives_precedence(const Slot& slot) {
  if (precedence_ == 0) return false;
  const int first = backwards_ ? ground_.mates.after : ground_.mates.before;
  if (first < 0 || (peer_arrived(first) && ground_.domain->reached(first, 0, global_slice(slot) + 1)))
    precedence_ = 0;
  else if (!done_)
    precedence_ = std::max(0, precedence_ - (peers_[first].arrived ? 1 : kPrecedence / 2));
  return precedence_ > 0;
}

/// Opens what a shared plan needs of this rank, if all of that lies in its segment, and says where. The operation then works at the segment's
/// addresses, whichever plan it becomes: of memory that was registered only those show all that peers do there.
void Operation::open_buffers(Whereabouts& mine) {
  Domain& domain = *ground_.domain;
  const Binding& binding = prepared().shared.binding;  // buffers have their size whatever the plan
  const auto in_bytes = static_cast<std::uint64_t>(binding.in.total());
  const auto out_bytes = static_cast<std::uint64_t>(binding.out.total());
  transport::Place in, out;
  if (in_bytes > 0) in = domain.find(request_.in, in_bytes);
  if (out_bytes > 0) out = domain.find(request_.out, out_bytes);
  bool any = false;
  for (const Bound* shared : {&prepared().preferred, &prepared().shared}) {
    if (!*shared) continue;
    const std::uint8_t exposed = shared->plan().exposed[ground_.rank];
    const bool opens_in = (exposed & plan::kExposesIn) != 0 && in_bytes > 0;
    const bool opens_out = (exposed & plan::kExposesOut) != 0 && out_bytes > 0;
    if ((opens_in && in.offset == 0) || (opens_out && out.offset == 0)) continue;
    any = true;
    mine.flags |= exposed;
    if (opens_in) mine.input = in.offset;
    if (opens_out) mine.output = out.offset;
  }
  if (!any) return;
  if (in.offset != 0) request_.in = domain.own(in.offset);
  if (out.offset != 0) request_.out = domain.own(out.offset);
  if (in.registered != nullptr) in.registered->to_segment(in.offset, in_bytes);
  own_in_ = std::move(in), own_out_ = std::move(out);
}

/// What this rank's own memory and word say already, before anybody waits for its announcement: looking at the others' would fetch lines that they may be writing just now.
void Operation::decide_alone() {
  if (!shared_open_ && !rival_open_) return;
  const auto closed = [&](const Bound& shared) {
    return !shared || !peers_[ground_.rank].where.opens(shared.plan().exposed[ground_.rank]);
  };
  if (shared_open_ && !closed_ && (plan().shared || !closed(prepared().preferred) || !closed(prepared().shared)))
    return;
  shared_open_ = false;
  if (!rival_open_)
    prepare();
  else if (rival_runs_)
    decide_rival();
}

namespace {
/// A program that opens its buffers now and then is not told that it may not.
constexpr std::uint32_t kPrivateCalls = 8;
}  // namespace

/// What the judge has said of this call, and what this rank says as the judge.
void Operation::judge(Domain& domain, Whereabouts& mine) {
  const bool first = request_.judged.number == 0, judges = ground_.rank == prepared().judge;
  const Verdict said = first ? Verdict{} : domain.verdict(prepared().judge, request_.judged);
  closed_ = said.closed && prepared().judge_opens;
  if (!first)
    rival_runs_ = said.rival;
  else if (judges)
    rival_runs_ = request_.rival_runs;
  if (!judges) return;
  if (first && request_.rival_runs) mine.flags |= Whereabouts::kRival;
  if (prepared().judge_opens) private_calls_ = mine.opens_any() ? 0 : private_calls_ + 1;
  Judged next = request_.judged;
  next.number++;
  // A call without a rival changes nothing for those of its kind that have one.
  domain.judge(next, {rival_open_ ? request_.rival_runs_next : said.rival, private_calls_ >= kPrivateCalls});
  if (closed_) mine.close();
}

/// Which plan it is, and where the peers' buffers are. False while an announcement is missing.
bool Operation::decide() {
  if (shared_open_ && !decide_shared()) return done_;
  if (!done_ && rival_open_ && !decide_rival()) return done_;
  return done_ || !reads_peers_ || peers_are_ready();
}

/// Whether all ranks open what a shared plan needs of them; nothing as long as only those that are not here yet could say no.
std::optional<bool> Operation::all_open(const Bound& shared) {
  const auto& exposed = shared.plan().exposed;
  bool all_here = true, all_open = true;
  for (int q = 0; q < ground_.size && !done_; q++) {
    if (exposed[q] == 0) continue;
    if (q != ground_.rank && !peer_arrived(q))
      all_here = false;
    else
      all_open &= peers_[q].where.opens(exposed[q]);
  }
  if (all_open && !all_here) return std::nullopt;
  return all_open;
}

/// Whether it is a shared plan, and which: the same on all ranks, as all look at the same announcements.
bool Operation::decide_shared() {
  const Bound* runs = nullptr;
  for (const Bound* shared : {&prepared().preferred, &prepared().shared}) {
    if (!*shared || runs != nullptr) continue;
    const std::optional<bool> open = all_open(*shared);
    if (done_) return true;  // a mismatch
    if (!open) return false;
    if (*open) runs = shared;
  }
  if (runs != nullptr) {
    // A rank that failed and left its buffers to its caller again has said so before it looked whether we have begun.
    tell();
    for (int q = 0; q < ground_.size; q++)
      if (q != ground_.rank && ground_.domain->gave_up(q, sequence_)) return false;
    become(*runs, false);
    if (!open_peers()) return true;
  } else if (plan().shared && !reads_peers_) {
    fail(Status::invalid(
        fmt::format("algorithm \"{}\" needs the buffers of all ranks to come from Group::allocate, or to be registered",
                    plan().algorithm)));
    return true;
  }
  shared_open_ = false;
  if (!rival_open_) prepare();
  return true;
}

void Operation::become(const Bound& bound, bool reads_peers) {
  bound_ = &bound;
  reads_peers_ = reads_peers;
  if (!reads_peers && offered_) {  // what it would have got: nobody looks for that now
    offered_.reset();
    helper_ = -1;
  }
  rival_open_ = false;
}

/// Whether it is the rival. False while the judge has not said so.
bool Operation::decide_rival() {
  if (!rival_runs_) {
    const int judge = prepared().judge;
    if (!peer_arrived(judge)) return false;
    rival_runs_ = (peers_[judge].where.flags & Whereabouts::kRival) != 0;
  }
  if (*rival_runs_) become(prepared().rival, true);
  rival_open_ = false;
  prepare();
  return true;
}

bool Operation::everyone_here() {
  if (ground_.domain == nullptr || !announced_) return false;
  bool all = true;
  for (int q = 0; q < ground_.size && !done_; q++) all &= peer_arrived(q);
  return all;
}

/// Whether rank q has said where its memory is, and leaves it to be read. Of plans without stages that is known before they start.
bool Operation::is_readable(int q) {
  return !bound_->compiled->stages() || (peer_arrived(q) && !ground_.domain->gave_up(q, sequence_));
}

/// Whether all whose memory is to be read have said where it is; who stages something has something to do before.
bool Operation::peers_are_ready() {
  const auto& exposed = plan().exposed;
  if (bound_->compiled->stages()) return true;
  for (int q = 0; q < ground_.size; q++)
    if (q != ground_.rank && exposed[q] != 0 && (!peer_arrived(q) || ground_.domain->gave_up(q, sequence_)))
      return done_;
  return true;
}

/// Finds the peers' buffers. False, and failed, when one does not lie where its owner said.
bool Operation::open_peers() {
  const plan::Plan& plan = this->plan();
  // One mapping for all accesses of a plan that writes to peers: fewer pages to map, and no two addresses for one place.
  bool writes = false;
  for (const std::uint8_t e : plan.exposed) writes |= (e & plan::kExposesOut) != 0;
  for (int q = 0; q < ground_.size; q++) {
    if (q == ground_.rank) continue;
    const auto open = [&](std::uint8_t bit, Space space, std::uint64_t offset, std::byte*& memory) {
      const auto total = static_cast<std::uint64_t>(peer_block(plan, bound_->binding, space, q, 0).total);
      if ((plan.exposed[q] & bit) == 0 || total == 0) return true;
      memory = ground_.domain->buffer(q, offset, total, writes);
      return memory != nullptr;
    };
    Peer& peer = peers_[q];
    peer.in = peer.out = nullptr;
    if (open(plan::kExposesIn, Space::peer_in, peer.where.input, peer.in) &&
        open(plan::kExposesOut, Space::peer_out, peer.where.output, peer.out))
      continue;
    fail(Status::internal(fmt::format(
        "rank {}'s buffer, at offset {} or {} of its shared memory, cannot be mapped (is a limit on address space, "
        "ulimit -v, in the way?)",
        q, peer.where.input, peer.where.output)));
    return false;
  }
  return true;
}

bool Operation::let_go(const std::vector<bool>& gone) {
  if (ground_.domain == nullptr || !announced_) return true;
  Domain& domain = *ground_.domain;
  domain.give_up(sequence_);
  // Whoever helps is through with its slice soon; if it is stopped just before it writes to private memory, it will find nothing to write to.
  if (offered_) {
    offered_->stop();
    domain.take_back_get(sequence_);
    const bool ended = helper_ < static_cast<int>(gone.size()) && gone[helper_];
    if (!ended && !offered_->quiet()) return false;
  }
  if (reducing_) reducing_->stop();  // who is at a piece of it gives up, or ends, behind that: see below
  // Who only reads what lies here may go on until it notices: its result is lost anyhow.
  const bool opened = peers_[ground_.rank].where.opens_any() && !reads_peers_;
  if (!opened || (begun_ && !plan().shared)) return true;
  for (int q = 0; q < ground_.size; q++) {
    if (q == ground_.rank || (q < static_cast<int>(gone.size()) && gone[q])) continue;
    if (domain.latest(q) < sequence_ || domain.gave_up(q, sequence_) || domain.done(q, base_ + 1)) continue;
    return false;
  }
  return true;
}

std::vector<int> Operation::waiting_for() const {
  std::vector<int> missing;
  if (ground_.domain != nullptr) {
    for (int q = 0; q < ground_.size; q++)
      if (q != ground_.rank && ground_.domain->latest(q) < sequence_) missing.push_back(q);
    if (!missing.empty()) return missing;
  }
  // All have begun (or nobody can tell): those that an unfinished step of ours waits for.
  const plan::Plan& plan = this->plan();
  std::vector<bool> named(ground_.size);
  const auto name = [&](int q) {
    named[q] = true;
    // Who is at a piece of q's work may be what q waits for.
    for (int h = 0; h < ground_.size && joint_reduction_ != nullptr; h++)
      if (h != ground_.rank && ground_.domain->is_helping(h, q)) named[h] = true;
  };
  for (std::int64_t k = retired_; k < next_slice_; k++) {
    const Slot& slot = slots_[k % slots_.size()];
    if (uncut_) {
      const auto& actions = bound_->actions.list;
      if (*slot.position < actions.size() && actions[*slot.position].op == OpCode::wait)
        name(actions[*slot.position].peer);
      if (get_to_ != nullptr) name(helper_);
      continue;
    }
    for (std::size_t lane = 0; lane < plan.lanes; lane++) {
      const auto& steps = bound_->compiled->lanes[lane];
      if (slot.position[lane] >= steps.size()) continue;
      if (helper_ >= 0) name(helper_);
      const Step& s = plan.steps[steps[slot.position[lane]]];
      if (s.peer >= 0 && (s.op == OpCode::recv || s.op == OpCode::wait || s.op == OpCode::send)) name(s.peer);
      if (reducing_) name(ground_.rank);
    }
  }
  for (int q = 0; q < ground_.size; q++)
    if (named[q] && q != ground_.rank) missing.push_back(q);
  return missing;
}

}  // namespace unisono::engine

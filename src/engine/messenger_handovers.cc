/// Messages that are handed over (handover.h): announced, moved on, ended.

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "engine/messenger.h"

namespace unisono::engine {

using transport::ConstPart;
using transport::Place;

namespace {
/// A turn copies so much, and then others get theirs.
constexpr std::uint64_t kCopiedAtOnce = 1 << 20;
/// A process that runs is through with its slice, or with all that is left, within this time.
constexpr Duration kPatience = std::chrono::seconds(1);
}  // namespace

void Messenger::lend(std::shared_ptr<transport::SharedSegment> segment, Unsettled unsettled) {
  const std::lock_guard lock(mutex_);
  segment_ = std::move(segment);
  unsettled_ = std::move(unsettled);
}

void Messenger::wake(int peer) { shared_locked(peer)->wake(); }

/// One that its receiver has left, or a new one.
Result<std::uint64_t> Messenger::new_record() {
  const auto found = std::find_if(records_.begin(), records_.end(), [&](const auto& known) {
    const auto* record = reinterpret_cast<const HandoverRecord*>(segment_->base() + known.second);
    return record->left.load(std::memory_order_acquire) != 0 || peers_[known.first].gone();
  });
  if (found == records_.end()) return segment_->allocate(sizeof(HandoverRecord));
  std::swap(records_.back(), *found);
  const std::uint64_t offset = records_.back().second;
  records_.pop_back();
  return offset;
}

/// Where a private message of `bytes` is to come to `to`; 0: memory is full.
std::uint64_t Messenger::new_landing(std::byte* to, std::uint64_t bytes) {
  if (landings_.empty()) {
    const auto offset = segment_->allocate(sizeof(Landing));
    if (!offset) return 0;
    new (segment_->base() + *offset) Landing;
    landings_.push_back(*offset);
  }
  const std::uint64_t offset = landings_.back();
  landings_.pop_back();
  landing_at(offset).open(to, bytes, Landing::slice_for(bytes));
  return offset;
}

Landing& Messenger::landing_at(std::uint64_t offset) noexcept {
  return *reinterpret_cast<Landing*>(segment_->base() + offset);
}

/// Whether anything of it was copied. `error`: see Handover::copy_through_kernel.
bool Messenger::copy(Handover& handover, int peer, int& error) {
  if (!handover.from_private()) return handover.opened() && handover.copy(kCopiedAtOnce, copies_);
  transport::SharedView* const view = shared_locked(peer);
  if (view == nullptr) error = ESRCH;
  return view != nullptr && handover.copy_through_kernel(kCopiedAtOnce, *view, error);
}

/// Null where that cannot be: then the message goes by the link.
std::shared_ptr<Completion> Messenger::hand_over(GroupState& group, int rank, const FrameHeader& header, ConstPart data,
                                                 const Place& place, const std::shared_ptr<UnderWay>& counted) {
  const int to = group.members[rank];
  if (peers_[to].gone() || shared_locked(to) == nullptr) return nullptr;
  const auto offset = new_record();
  if (!offset) return nullptr;
  if (place.registered != nullptr) place.registered->to_segment(place.offset, data.size());
  auto* const record = new (segment_->base() + *offset) HandoverRecord;
  const bool is_private = place.offset == 0;
  const std::byte* const from = is_private ? data.data() : segment_->base() + place.offset;
  record->private_source = is_private ? 1 : 0;
  record->source = is_private ? reinterpret_cast<std::uintptr_t>(from) : place.offset;
  record->bytes = data.size();
  record->slice = is_private ? Landing::slice_for(data.size()) : Handover::slice_for(data.size());
  record->owner_in_front = group.rank < rank ? 1 : 0;  // what goes to and fro stays in the caches that it is in
  const Handover handover(*record, Handover::kSender, from);
  auto completion = std::make_shared<Completion>(counted);
  outgoing_.push_back({header.group, to, *offset, handover, data, place, completion});
  OutFrame frame;
  frame.header = header;
  frame.header.flags = kByHand;
  frame.header.place = *offset;
  enqueue(to, std::move(frame));
  return completion;
}

/// What a header refers to. Null, and the stream or the group has failed, when that is not there or makes no sense.
HandoverRecord* Messenger::record_of(Stream& stream, const FrameHeader& header) {
  transport::SharedView* const view = stream.link().shared();
  const auto* const read_only =
      view == nullptr ? nullptr
                      : reinterpret_cast<const HandoverRecord*>(view->at(header.place, sizeof(HandoverRecord)));
  const auto makes_sense = [&](const HandoverRecord& record) {
    if (header.place % alignof(HandoverRecord) != 0 || record.bytes != header.length || header.length == 0)
      return false;
    if (record.private_source != 0) return record.slice == Landing::slice_for(header.length) && view->reads_memory();
    return record.slice == Handover::slice_for(header.length) && view->at(record.source, header.length) != nullptr;
  };
  if (read_only == nullptr || !makes_sense(*read_only)) {
    stream.reject();
    return nullptr;
  }
  // One mapping for all accesses: fewer pages to map.
  auto* const record = view->writable(header.place, sizeof(HandoverRecord));
  if (record == nullptr)
    if (GroupState* group = find(header.group))
      fail_group_locked(header.group, *group,
                        Status::internal(fmt::format("the shared memory of {} cannot be mapped for writing (is a limit "
                                                     "on address space, ulimit -v, in the way?)",
                                                     describe_peer(stream.peer()))),
                        true);
  return reinterpret_cast<HandoverRecord*>(record);
}

/// The message is matched, or kept for a receive that is to come, or nobody wants it.
void Messenger::take_over(Stream& stream, const FrameHeader& header, Sink sink) {
  HandoverRecord* const record = record_of(stream, header);
  if (record == nullptr) return;
  if (sink.parts.empty()) {
    Handover::decline(*record);
    wake(stream.peer());
    return;
  }
  const transport::MutablePart to = sink.parts[0];
  transport::SharedView& view = *stream.link().shared();
  const bool is_private = record->private_source != 0;
  const std::byte* const from =
      is_private ? reinterpret_cast<const std::byte*>(record->source) : view.writable(record->source, header.length);
  Incoming in{stream.peer(), header, Handover(*record, Handover::kReceiver, from), std::move(sink), {}};
  if (in.sink.completion && to.size() >= header.length) in.memory = segment_->find(to.data(), header.length);
  std::byte* const here = in.memory.offset != 0 ? segment_->base() + in.memory.offset : to.data();
  const bool all = to.size() >= header.length;
  if (is_private && all && view.writes_memory()) in.landing = new_landing(here, header.length);
  in.handover.take(here, all ? header.length : to.size(), is_private ? in.landing : in.memory.offset);
  incoming_.push_back(std::move(in));
  wake(stream.peer());
}

// --- progress --------------------------------------------------------------------------------------------------------

bool Messenger::advance_handovers() {
  bool moved = false;
  const auto advance_all = [&](auto& list) {
    for (auto it = list.begin(); it != list.end();) {
      bool ended = false;
      moved |= advance(*it, ended);
      moved |= ended;
      it = ended ? list.erase(it) : std::next(it);
    }
  };
  advance_all(outgoing_);
  advance_all(incoming_);
  std::erase_if(unsafe_, [&](const Unsafe& u) { return peers_[u.peer].gone(); });
  return moved;
}

bool Messenger::advance(Outgoing& o, bool& ended) {
  Handover& handover = o.handover;
  if (!o.asked)
    if (const std::uint64_t target = handover.target(); target != 0) {
      transport::SharedView& view = *shared_locked(o.peer);
      o.asked = true;
      if (!handover.from_private())
        handover.open_target(view.writable(target, o.data.size()));
      else if (view.writes_memory())
        handover.open_landing(reinterpret_cast<const Landing*>(view.at(target, sizeof(Landing))));
    }
  int error = 0;
  const bool moved = copy(handover, o.peer, error);
  if (moved && handover.complete()) wake(o.peer);
  Status status;
  ended = handover.complete() || handover.declined();
  const GroupState* const group = find(o.group);
  const int rank = group == nullptr ? -1 : group->rank_of(o.peer);
  if (!handover.complete() && rank >= 0 && is_gone(*group, rank)) {  // so it has declined, or never will
    handover.withdraw();
    status = gone_status(*group, rank, fmt::format("receiving what rank {} sends to it", group->rank));
    ended = true;
  }
  if (ended) {
    deferred_.add(o.completion->complete(std::move(status)));
    records_.emplace_back(o.peer, o.record);
  }
  return moved;
}

bool Messenger::advance(Incoming& in, bool& ended) {
  int error = 0;
  const bool moved = copy(in.handover, in.peer, error);
  if (error != 0 && error != ESRCH) {
    ended = true;
    stop(in,
         Status::system(fmt::format("cannot read the memory of {} (process_vm_readv of a message of {} bytes): was its "
                                    "buffer freed before the message had ended?",
                                    describe_peer(in.peer), in.header.length),
                        error),
         false);
  } else if (in.handover.complete()) {
    ended = true;
    end(in, {});
  } else if (in.handover.given_up() || (error == ESRCH && peers_[in.peer].gone())) {
    // Most often the group has failed there, and the reason is on its way.
    const TimePoint now = clock_.now();
    if (in.patience == TimePoint::max()) in.patience = saturating_add(now, kPatience);
    if (now < in.patience && !peers_[in.peer].gone() && !has_left(in.header.group, in.peer)) return moved;
    ended = true;
    const PeerAddress& a = peers_[in.peer].address;
    end(in, Status::rank_failure(
                fmt::format("the process that sent this message ({}) gave it up amid it", describe_peer(in.peer)), -1,
                a.host, a.pid));
  }
  return moved;
}

/// The other side touches nothing any more.
void Messenger::end(Incoming& in, const Status& status) {
  if (status.ok()) {
    if (in.memory.registered != nullptr) in.memory.registered->from_segment(in.memory.offset, in.header.length);
    deliver(in.peer, in.header, in.sink);
  } else {
    if (in.sink.completion) deferred_.add(in.sink.completion->complete(status));
    if (GroupState* group = find(in.header.group); group != nullptr && in.sink.parcel)
      group->inbox.give_up(in.sink.parcel, status, deferred_);
  }
  if (in.landing != 0) landings_.push_back(in.landing);
  in.handover.leave();
  wake(in.peer);
}

// --- before their end ------------------------------------------------------------------------------------------------

/// Copies what is left, with the other side if it does its part; whether all is copied then.
bool Messenger::finish(Handover& handover, int peer) {
  const TimePoint until = saturating_add(clock_.now(), kPatience);
  while (!handover.complete()) {
    int error = 0;
    if (copy(handover, peer, error)) continue;
    if (error != 0) break;
    if (handover.given_up() || handover.declined() || peers_[peer].gone() || clock_.now() > until) break;
    ::sched_yield();
  }
  wake(peer);
  return handover.complete();
}

/// After this the other side touches nothing any more; false when it was not through with its slice in time.
bool Messenger::settle(Handover& handover, int peer) {
  handover.stop();
  wake(peer);
  const TimePoint until = saturating_add(clock_.now(), kPatience);
  while (!handover.quiet() && !peers_[peer].gone()) {
    if (clock_.now() > until) return false;
    ::sched_yield();
  }
  return true;
}

void Messenger::stop(Outgoing& o, const Status& status, bool finish_it) {
  const bool untouched = o.handover.withdraw();
  bool sent = !untouched && finish_it && (finish(o.handover, o.peer) || o.handover.declined());
  if (!sent && !untouched) {
    if (!settle(o.handover, o.peer)) o.handover.tear();
    sent = o.handover.complete();
  }
  deferred_.add(o.completion->complete(sent ? Status{} : status));
  records_.emplace_back(o.peer, o.record);
}

void Messenger::stop(Incoming& in, const Status& status, bool finish_it) {
  if (finish_it && finish(in.handover, in.peer)) {
    end(in, {});
    return;
  }
  if (in.landing != 0)
    landing_at(in.landing).take_back();  // who is stopped just before it writes finds nothing to write to
  if (!settle(in.handover, in.peer)) {
    if (in.memory.offset != 0) warn_unsafe(in.peer, in.sink.parts[0].data(), in.header.length, in.memory);
    if (in.sink.completion) deferred_.add(in.sink.completion->complete(status));
    return;  // its record is the sender's for good
  }
  end(in, status);
}

void Messenger::warn_unsafe(int peer, const void* data, std::size_t bytes, Place place) {
  log_.warn(
      fmt::format("a message from {} has failed, but it has not noticed within a second: the receive buffer lies on "
                  "other pages from now on, which it cannot write to",
                  describe_peer(peer)));
  Unsafe unsafe{peer, std::move(place), {}};
  if (unsettled_) unsafe.memory = unsettled_(data, bytes);
  unsafe_.push_back(std::move(unsafe));
}

void Messenger::forget_handovers(std::uint64_t group, const Completion* only, const Status& status, bool finish_them) {
  const auto stop_all = [&](auto& list, const auto& group_of, const auto& completion_of) {
    for (auto it = list.begin(); it != list.end();) {
      if (group_of(*it) != group || (only != nullptr && completion_of(*it) != only)) {
        ++it;
        continue;
      }
      stop(*it, status, finish_them);
      it = list.erase(it);
    }
  };
  stop_all(outgoing_, [](const auto& o) { return o.group; }, [](const auto& o) { return o.completion.get(); });
  stop_all(
      incoming_, [](const auto& in) { return in.header.group; },
      [](const auto& in) { return in.sink.completion.get(); });
}

}  // namespace unisono::engine

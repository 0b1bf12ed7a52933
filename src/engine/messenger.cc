/// Frames and progress. Peers and their streams: messenger_peers.cc. Groups and failures: messenger_groups.cc.

#include "engine/messenger.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace unisono::engine {

using transport::ConstPart;
using transport::Event;
using transport::MutablePart;

namespace {
/// Up to so many sockets are read without asking first which of them is ready: that question costs as much.
constexpr std::size_t kFewSockets = 4;
/// One look in so many is one at everything; a socket that would take no more is tried again with every few.
constexpr std::uint32_t kQuickLooks = 32, kWriteAgain = 4;
/// A frame with so much payload goes out at once as a rule: nothing is queued for it if it does.
constexpr std::uint64_t kAtOnce = 128 << 10;
}  // namespace

Messenger::Messenger(PeerId self, std::vector<std::unique_ptr<transport::Transport>> transports,
                     transport::Poller& poller, const Clock& clock, Logger log)
    : self_(self), transports_(std::move(transports)), poller_(poller), clock_(clock), log_(std::move(log)) {
  for (auto& t : transports_) t->attach(poller_);
  run(sent_->complete({}));
}

Messenger::~Messenger() = default;

void Messenger::add_transport(std::unique_ptr<transport::Transport> transport) {
  const std::lock_guard lock(mutex_);
  transport->attach(poller_);
  transports_.push_back(std::move(transport));
}

void Messenger::send(std::uint64_t id, int rank, const FrameHeader& header, std::span<const MutablePart> parts,
                     StepFlag* flag) {
  const std::lock_guard lock(mutex_);
  GroupState* group = find(id);
  if (group == nullptr || group->failure->failed()) return;
  OutFrame frame;
  frame.header = header;
  frame.flag = flag;
  if (Peer& peer = peers_[group->members[rank]]; header.length <= kAtOnce && parts.size() <= 1 && !peer.gone())
    frame.written = peer.bundle.write_now(header, parts.empty() ? ConstPart{} : ConstPart(parts.front()));
  if (frame.written == frame.size()) return frame.finish(deferred_);
  frame.parts.assign(parts.begin(), parts.end());
  enqueue(group->members[rank], std::move(frame));
}

Stream::Found Messenger::collect(std::uint64_t id, int rank, const FrameHeader& header, MutablePart into,
                                 StepFlag* flag, int looks) {
  const std::lock_guard lock(mutex_);
  GroupState* group = find(id);
  if (group == nullptr || group->failure->failed() || group->inbox.keeps(rank, header))
    return Stream::Found::something_else;
  Peer& peer = peers_[group->members[rank]];
  Stream* const stream = peer.gone() ? nullptr : peer.bundle.only();
  if (stream == nullptr) return Stream::Found::something_else;
  const Stream::Found found = stream->collect(header, into, flag, looks);
  if (found >= Stream::Found::a_part) group->inbox.note_begun(rank, header.sequence);
  look_after(*stream);
  return found;
}

Stream::Brief Messenger::receive_now(std::uint64_t id, int rank, std::int64_t tag, MutablePart buffer, int looks,
                                     Arrival& arrival) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return Stream::Brief::nothing_yet;
  GroupState* group = find(id);
  // What was posted or kept before comes first.
  if (group == nullptr || group->failure->failed() || !group->inbox.no_messages()) return Stream::Brief::something_else;
  Peer& peer = peers_[group->members[rank]];
  Stream* stream = peer.gone() ? nullptr : peer.bundle.only();
  if (stream == nullptr) return Stream::Brief::something_else;
  ConstPart payload;
  const auto found = stream->find_brief(id, static_cast<std::uint64_t>(tag), looks, payload);
  if (found != Stream::Brief::here) return found;
  if (payload.size() > buffer.size()) return Stream::Brief::something_else;
  if (!payload.empty()) std::memcpy(buffer.data(), payload.data(), payload.size());
  stream->drop_brief();
  arrival = {rank, tag, static_cast<std::int64_t>(payload.size())};
  return found;
}

std::shared_ptr<Completion> Messenger::send_message(std::uint64_t id, int rank, std::int64_t tag, ConstPart data,
                                                    const transport::Place* place,
                                                    const std::shared_ptr<UnderWay>& counted) {
  FrameHeader header;
  header.kind = FrameKind::message;
  header.group = id;
  header.sequence = static_cast<std::uint64_t>(tag);
  header.length = data.size();
  std::shared_ptr<Completion> completion;
  Completion::Callbacks callbacks;
  {
    const std::lock_guard lock(mutex_);
    GroupState* group = find(id);
    if (group == nullptr || group->failure->failed()) {
      completion = std::make_shared<Completion>();
      callbacks = completion->complete(group ? group->failure->status()
                                             : Status::invalid("send on a group that was destroyed"));
    } else if (group->failure->departed() && is_gone(*group, rank)) {
      completion = std::make_shared<Completion>();
      callbacks = completion->complete(
          gone_status(*group, rank, fmt::format("receiving what rank {} sends to it", group->rank)));
    } else if (rank == group->rank) {
      Status sent = send_to_self(*group, header, data);
      callbacks = deferred_.take();
      if (!sent.ok()) {
        completion = std::make_shared<Completion>();
        (void)completion->complete(std::move(sent));
      }
    } else {
      if (place != nullptr)
        if (auto handed_over = hand_over(*group, rank, header, data, *place, counted)) return handed_over;
      Peer& peer = peers_[group->members[rank]];
      const std::size_t written = peer.gone() ? 0 : peer.bundle.write_now(header, data);
      if (written == bytes_of(header) + data.size()) return nullptr;
      OutFrame frame;
      frame.header = header;
      if (!data.empty()) frame.parts.push_back(data);
      frame.completion = completion = std::make_shared<Completion>(counted);
      frame.written = written;
      enqueue(group->members[rank], std::move(frame));
      callbacks = deferred_.take();
    }
  }
  run(callbacks);
  return completion;
}

/// Copied now: to a receive that is posted, or to memory that keeps it until one is.
Status Messenger::send_to_self(GroupState& group, const FrameHeader& header, ConstPart data) {
  std::optional<Discord> none;
  auto sink = group.inbox.on_frame(group.rank, header, none);
  if (!sink)
    return Status::system(
        fmt::format(
            "rank {} of group \"{}\" sends {} bytes to itself, and 1 GiB that it has not received waits already",
            group.rank, group.name, data.size()),
        ENOBUFS);
  for (ConstPart rest = data; const MutablePart& part : sink->parts) {
    const std::size_t bytes = std::min(part.size(), rest.size());
    if (bytes > 0) std::memcpy(part.data(), rest.data(), bytes);
    rest = rest.subspan(bytes);
  }
  group.inbox.on_payload(group.rank, header, *sink, deferred_);
  poller_.wake();  // another thread may sleep until it comes
  return {};
}

// --- progress --------------------------------------------------------------------------------------------------------

bool Messenger::poll(Look look) {
  Completion::Callbacks callbacks;
  bool moved = false;
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    moved = poll_locked(look);
    callbacks = deferred_.take();
  }
  run(callbacks);
  return moved;
}

bool Messenger::poll_locked(Look look) {
  bool moved = false;
  for (Stream* s : memory_streams_) {
    moved |= s->read(*this);
    if (!s->idle()) moved |= peers_[s->peer()].bundle.flush(*s, deferred_);
    look_after(*s);
  }
  if (!outgoing_.empty() || !incoming_.empty()) moved |= advance_handovers();
  if (look == Look::quick && connecting_ == 0 && by_fd_.size() <= kFewSockets && ++quick_looks_ < kQuickLooks)
    moved |= look_at_sockets();
  else if (look != Look::memory)
    moved |= look_at_all();
  for (Stream* s : std::exchange(ended_, {})) {
    on_stream_end(*s);
    moved = true;
  }
  return moved;
}

/// Whether `stream` is likely to bring something: a part of it has come, or something that only its peer can send is awaited. Those that are not
/// likely to are asked when everything is looked at: a question to the kernel that finds nothing takes as long as a yield.
bool Messenger::expects(const Stream& stream) {
  if (!peers_[stream.peer()].bundle.incoming().empty()) return true;
  if (stream.only_parts()) return false;
  if (stream.within_frame() || stream.holds_input() || awaiting_.empty()) return true;
  return std::any_of(awaiting_.begin(), awaiting_.end(), [&](const GroupState* group) {
    const int rank = group->rank_of(stream.peer());
    return rank >= 0 && group->inbox.awaits(rank);
  });
}

bool Messenger::look_at_sockets() {
  bool moved = false;
  awaiting_.clear();
  for (const auto& [id, group] : groups_)
    if (group.inbox.awaits()) awaiting_.push_back(&group);
  for (auto& [fd, s] : by_fd_) {
    Bundle& bundle = peers_[s->peer()].bundle;
    const bool came = expects(*s) && s->read(*this);
    look_after(*s);
    // Who reads from us sends to us, too, as a rule.
    if (!s->idle() && (came || quick_looks_ % kWriteAgain == 0)) moved |= bundle.flush(*s, deferred_);
    moved |= came;
  }
  return moved;
}

bool Messenger::look_at_all() {
  bool moved = false;
  quick_looks_ = 0;
  ready_.clear();
  poller_.poll(ready_);
  bool others = connecting_ > 0;
  for (const int fd : ready_) {
    const auto it = by_fd_.find(fd);
    if (it == by_fd_.end()) {
      others = true;
      continue;
    }
    Stream* s = it->second;
    moved |= s->read(*this);
    look_after(*s);
  }
  for (auto& [fd, s] : by_fd_) {
    if (s->holds_input()) {  // no event will come for that
      moved |= s->read(*this);
      look_after(*s);
    }
    if (!s->idle()) moved |= peers_[s->peer()].bundle.flush(*s, deferred_);
    poller_.want_write(fd, !s->idle());
  }
  const TimePoint now = clock_.now();
  for (auto& t : transports_)
    if (others || t->next_deadline() <= now) t->poll(now, events_);
  for (Event& e : std::exchange(events_, {})) {
    on_event(std::move(e));
    moved = true;
  }
  return moved;
}

TimePoint Messenger::next_deadline() const {
  const std::lock_guard lock(mutex_);
  TimePoint next = TimePoint::max();
  for (const auto& t : transports_) next = std::min(next, t->next_deadline());
  if (connecting_ > 0) next = std::min(next, saturating_add(clock_.now(), std::chrono::milliseconds(2)));
  return next;
}

std::optional<Sink> Messenger::on_frame(Stream& stream, const FrameHeader& header) {
  const auto keep_bytes = [&]() -> std::optional<Sink> {
    Sink sink;
    sink.parcel = std::make_shared<Parcel>();
    sink.parcel->data = Buffer(std::min<std::uint64_t>(header.length, 1 << 20));
    sink.parts = {sink.parcel->data.span()};
    return sink;
  };
  if (header.kind == FrameKind::abort || header.kind == FrameKind::leave || header.kind == FrameKind::wait)
    return keep_bytes();
  if (header.kind == FrameKind::probe) {
    GroupState* probed = find(header.group);
    const int from = probed ? probed->rank_of(stream.peer()) : -1;
    if (from >= 0 && !probed->failure->failed())
      if (auto discord = probed->inbox.on_probe(from, header)) report_discord(header.group, *probed, *discord);
    return keep_bytes();
  }
  if (header.kind == FrameKind::part) return on_part(stream, header);
  if (header.kind != FrameKind::collective && header.kind != FrameKind::message) return Sink{};
  GroupState* group = find(header.group);
  if (group == nullptr) {
    // A member may be ahead of us in making a group: its frames wait until we open it, too. A closed group's are dropped.
    if (closed_groups_.contains(header.group)) return Sink{};
    return std::nullopt;
  }
  if (group->failure->failed()) return Sink{};
  const int rank = group->rank_of(stream.peer());
  if (rank < 0) return Sink{};
  if ((header.flags & kByHand) != 0) {
    const HandoverRecord* const record = record_of(stream, header);
    if (record == nullptr || Handover::withdrawn(*record)) return Sink{};
  }
  std::optional<Discord> discord;
  const bool patient = !draining_ && stream.patient();
  auto sink = group->inbox.on_frame(rank, header, discord, patient);
  if (discord) report_discord(header.group, *group, *discord);
  return sink;
}

std::optional<Sink> Messenger::on_part(Stream& stream, const FrameHeader& header) {
  Sink sink;
  switch (peers_[stream.peer()].bundle.incoming().find(header, sink)) {
    case Assembly::Found::yes:
      return sink;
    case Assembly::Found::later:
      return std::nullopt;
    case Assembly::Found::never:
      stream.reject();
  }
  return Sink{};
}

void Messenger::on_payload(Stream& stream, const FrameHeader& header, Sink& sink) {
  Peer& peer = peers_[stream.peer()];
  switch (header.kind) {
    case FrameKind::collective:
    case FrameKind::message:
      if ((header.flags & kByHand) != 0)
        take_over(stream, header, std::move(sink));
      else if ((header.flags & kInParts) == 0)
        deliver(stream.peer(), header, sink);
      else if (!peer.bundle.incoming().begin(header, std::move(sink)))
        stream.reject();
      return;
    case FrameKind::part:
      if (auto whole = peer.bundle.incoming().arrived(header)) {
        deliver(stream.peer(), whole->header, whole->sink);
        if (GroupState* group = find(whole->header.group))
          if (const int rank = group->rank_of(stream.peer()); rank >= 0) note_left(whole->header.group, *group, rank);
      }
      if (peer.leaving && peer.bundle.incoming().empty()) peer_left(stream.peer());
      return;
    case FrameKind::last:
      stream.hear_last();
      // Ours may be the other one's first stream: small frames are to stay in order, so it stays in use.
      if (!peer.bundle.is_first(stream)) stream.say_last();
      return;
    case FrameKind::abort: {
      if (!sink.parcel) return;
      auto record = AbortRecord::decode(sink.parcel->data.span());
      if (record)
        on_abort(stream.peer(), *record);
      else
        log_.warn(record.status().message());
      return;
    }
    case FrameKind::probe:
      if (GroupState* probed = find(header.group); probed != nullptr && sink.parcel)
        probed->inbox.merge_begun(sink.parcel->data.span());
      return;
    case FrameKind::leave:
      if (sink.parcel) on_leave(stream.peer(), header, sink.parcel->data.span());
      return;
    case FrameKind::wait:
      if (sink.parcel && hear_wait_) hear_wait_(stream.peer(), sink.parcel->data.span());
      return;
    case FrameKind::goodbye:
      stream.hear_last();
      // It came behind all heads; parts may still be under way on other streams.
      peer.leaving = true;
      if (peer.bundle.incoming().empty()) peer_left(stream.peer());
      return;
  }
}

/// All of a frame's payload is in its sink.
void Messenger::deliver(int peer, const FrameHeader& header, Sink& sink) {
  GroupState* group = find(header.group);
  if (group == nullptr) return;
  const int rank = group->rank_of(peer);
  if (rank >= 0) group->inbox.on_payload(rank, header, sink, deferred_);
}

void Messenger::leave(TimePoint deadline) {
  {
    const std::lock_guard lock(mutex_);
    for (Peer& peer : peers_)
      if (!peer.gone()) peer.bundle.say_goodbye(deferred_);
  }
  const auto pending = [this] {
    const std::lock_guard lock(mutex_);
    return std::any_of(peers_.begin(), peers_.end(), [](const Peer& p) { return !p.gone() && !p.bundle.idle(); });
  };
  while (pending() && clock_.now() < deadline) {
    if (poll(Look::all)) continue;
    poller_.prepare();
    if (poll(Look::all) || !pending()) {
      poller_.cancel();
      continue;
    }
    poller_.wait(std::chrono::milliseconds(5));
  }
}

}  // namespace unisono::engine

/// Peers, streams and progress. Groups and failures: messenger_groups.cc.

#include "engine/messenger.h"

#include <fmt/format.h>

#include <algorithm>
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
/// Run callbacks after the lock is gone.
void run(Completion::Callbacks callbacks) {
  for (auto& c : callbacks) c();
}
}  // namespace

Messenger::Messenger(PeerId self, std::vector<std::unique_ptr<transport::Transport>> transports,
                     transport::Poller& poller, const Clock& clock, Logger log)
    : self_(self), transports_(std::move(transports)), poller_(poller), clock_(clock), log_(std::move(log)) {
  for (auto& t : transports_) t->attach(poller_);
}

Messenger::~Messenger() = default;

void Messenger::add_transport(std::unique_ptr<transport::Transport> transport) {
  const std::lock_guard lock(mutex_);
  transport->attach(poller_);
  transports_.push_back(std::move(transport));
}

int Messenger::peer_locked(const PeerId& id) {
  const auto [it, fresh] = peer_index_.try_emplace(to_string(id), static_cast<int>(peers_.size()));
  if (fresh) {
    peers_.emplace_back();
    peers_.back().address.id = id;
  }
  return it->second;
}

int Messenger::add_peer(const PeerAddress& address) {
  const std::lock_guard lock(mutex_);
  const int index = peer_locked(address.id);
  Peer& peer = peers_[index];
  if (!peer.known || peer.address.address.empty()) peer.address = address;
  peer.known = true;
  return index;
}

void Messenger::dial(int index, TimePoint deadline) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[index];
  if (!peer.streams.empty() || peer.dialing || peer.gone()) return;
  peer.dialing = true;
  connecting_++;
  transports_[peer.address.transport]->dial(peer.address.id, peer.address.address, deadline);
}

bool Messenger::connected(int peer) const {
  const std::lock_guard lock(mutex_);
  return !peers_[peer].streams.empty();
}

Status Messenger::peer_status(int peer) const {
  const std::lock_guard lock(mutex_);
  return peers_[peer].status;
}

transport::SharedView* Messenger::shared(int peer) const {
  const std::lock_guard lock(mutex_);
  return peers_[peer].streams.empty() ? nullptr : peers_[peer].streams.front()->link().shared();
}

std::string Messenger::describe_peer(int index) const {
  const PeerAddress& a = peers_[index].address;
  return a.host.empty() ? fmt::format("process {}", to_string(a.id)) : fmt::format("host {}, pid {}", a.host, a.pid);
}

void Messenger::enqueue(int index, OutFrame frame) {
  Peer& peer = peers_[index];
  if (peer.gone()) {
    if (frame.completion)
      deferred_.add(frame.completion->complete(
          Status::rank_failure(fmt::format("the process to send to ({}) is gone", describe_peer(index)), -1,
                               peer.address.host, peer.address.pid)));
    return;
  }
  if (!peer.streams.empty()) {
    Stream& stream = *peer.streams.front();
    stream.enqueue(std::move(frame));
    stream.flush(deferred_);
    return;
  }
  peer.waiting.push_back(std::move(frame));
  if (peer.dialing) return;
  peer.dialing = true;
  connecting_++;
  transports_[peer.address.transport]->dial(peer.address.id, peer.address.address,
                                            saturating_add(clock_.now(), std::chrono::seconds(30)));
}

void Messenger::send(std::uint64_t id, int rank, const FrameHeader& header, std::span<const MutablePart> parts,
                     StepFlag* flag) {
  const std::lock_guard lock(mutex_);
  GroupState* group = find(id);
  if (group == nullptr || group->failure->failed()) return;
  OutFrame frame;
  frame.header = header;
  frame.parts.assign(parts.begin(), parts.end());
  frame.flag = flag;
  enqueue(group->members[rank], std::move(frame));
}

void Messenger::send_message(std::uint64_t id, int rank, std::int64_t tag, ConstPart data,
                             std::shared_ptr<Completion> completion) {
  Completion::Callbacks callbacks;
  {
    const std::lock_guard lock(mutex_);
    GroupState* group = find(id);
    if (group == nullptr || group->failure->failed()) {
      callbacks = completion->complete(group ? group->failure->status()
                                             : Status::invalid("send on a group that was destroyed"));
    } else {
      OutFrame frame;
      frame.header.kind = FrameKind::message;
      frame.header.group = id;
      frame.header.sequence = static_cast<std::uint64_t>(tag);
      frame.header.length = data.size();
      if (!data.empty()) frame.parts.push_back(data);
      frame.completion = std::move(completion);
      enqueue(group->members[rank], std::move(frame));
    }
    if (!deferred_.empty())
      for (auto& c : deferred_.take()) callbacks.push_back(std::move(c));
  }
  run(std::move(callbacks));
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
  run(std::move(callbacks));
  return moved;
}

bool Messenger::poll_locked(Look look) {
  bool moved = false;
  for (Stream* s : memory_streams_) {
    moved |= s->read(*this);
    if (!s->idle()) moved |= s->flush(deferred_);
    if (s->state() != Stream::State::open) ended_.push_back(s);
  }
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

bool Messenger::look_at_sockets() {
  bool moved = false;
  for (auto& [fd, s] : by_fd_) {
    const bool came = s->read(*this);
    if (s->state() != Stream::State::open) ended_.push_back(s);
    // Who reads from us sends to us, too, as a rule.
    if (!s->idle() && (came || quick_looks_ % kWriteAgain == 0)) moved |= s->flush(deferred_);
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
    if (s->state() != Stream::State::open) ended_.push_back(s);
  }
  for (auto& [fd, s] : by_fd_) {
    if (s->holds_input()) {  // no event will come for that
      moved |= s->read(*this);
      if (s->state() != Stream::State::open) ended_.push_back(s);
    }
    if (!s->idle()) moved |= s->flush(deferred_);
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

void Messenger::on_event(Event event) {
  const int index = peer_locked(event.peer);
  switch (event.kind) {
    case Event::Kind::up: {
      auto stream = std::make_unique<Stream>(std::move(event.link), index);
      Stream* s = stream.get();
      const int fd = s->link().fd();
      if (fd >= 0) {
        poller_.add(fd);
        by_fd_[fd] = s;
        kernel_links_.store(true, std::memory_order_relaxed);
      } else {
        memory_streams_.push_back(s);
      }
      Peer& peer = peers_[index];
      if (event.dialed && peer.dialing) peer.dialing = false, connecting_--;
      peer.streams.push_back(std::move(stream));
      log_.debug(fmt::format("connected: {}", s->link().describe()));
      if (peer.streams.size() == 1)
        for (OutFrame& f : std::exchange(peer.waiting, {})) s->enqueue(std::move(f));
      s->flush(deferred_);
      if (fd >= 0 && !s->idle()) poller_.want_write(fd, true);
      break;
    }
    case Event::Kind::failed:
      if (peers_[index].dialing) peers_[index].dialing = false, connecting_--;
      peers_[index].status = event.status;
      // Whoever was to get something now never will. Without a frame waiting, only the one who dialled cares.
      if (!peers_[index].waiting.empty()) peer_died(index, event.status.message(), true);
      break;
    case Event::Kind::died:
      drain(index);
      if (!peers_[index].left) peer_died(index, "its process ended", true);
      break;
    case Event::Kind::rejected:
      log_.warn(fmt::format("a connection was refused: {}", event.status.message()));
      break;
  }
}

/// Read what a peer has sent before its end: it may say why.
void Messenger::drain(int index) {
  const bool within = std::exchange(draining_, true);
  // By position: reading can add streams to the vector, never remove one.
  for (std::size_t i = 0; i < peers_[index].streams.size(); i++) {
    Stream* s = peers_[index].streams[i].get();
    while (s->read(*this)) {
    }
  }
  draining_ = within;
}

void Messenger::on_stream_end(Stream& stream) {
  const int fd = stream.link().fd();
  if (fd >= 0) {
    if (by_fd_.erase(fd) == 0) return;  // known already
    poller_.remove(fd);
  } else if (std::erase(memory_streams_, &stream) == 0) {
    return;
  }
  const int index = stream.peer();
  if (peers_[index].gone()) return;
  const std::string how = stream.state() == Stream::State::failed
                              ? fmt::format("{} failed: {}", stream.link().describe(), std::strerror(stream.error()))
                              : fmt::format("{} was closed without a goodbye", stream.link().describe());
  drain(index);
  if (!peers_[index].gone()) peer_died(index, how, true);
}

std::optional<Sink> Messenger::on_frame(Stream& stream, const FrameHeader& header) {
  const auto keep_bytes = [&]() -> std::optional<Sink> {
    Sink sink;
    sink.parcel = std::make_shared<Parcel>();
    sink.parcel->data = Buffer(std::min<std::uint64_t>(header.length, 1 << 20));
    sink.parts = {sink.parcel->data.span()};
    return sink;
  };
  if (header.kind == FrameKind::abort) return keep_bytes();
  if (header.kind == FrameKind::probe) {
    GroupState* probed = find(header.group);
    const int from = probed ? rank_of(*probed, stream.peer()) : -1;
    if (from >= 0 && !probed->failure->failed())
      if (auto discord = probed->inbox.on_probe(from, header)) report_discord(header.group, *probed, *discord);
    return keep_bytes();
  }
  if (header.kind != FrameKind::collective && header.kind != FrameKind::message) return Sink{};
  GroupState* group = find(header.group);
  if (group == nullptr) {
    // A member may be ahead of us in making a group: its frames wait until we open it, too. A closed group's are dropped.
    if (closed_groups_.contains(header.group)) return Sink{};
    return std::nullopt;
  }
  if (group->failure->failed()) return Sink{};
  const int rank = rank_of(*group, stream.peer());
  if (rank < 0) return Sink{};
  std::optional<Discord> discord;
  const bool patient = !draining_ && stream.patient();
  auto sink = group->inbox.on_frame(rank, header, discord, patient);
  if (discord) report_discord(header.group, *group, *discord);
  return sink;
}

void Messenger::on_payload(Stream& stream, const FrameHeader& header, Sink& sink) {
  switch (header.kind) {
    case FrameKind::collective:
    case FrameKind::message: {
      GroupState* group = find(header.group);
      if (group == nullptr) return;
      const int rank = rank_of(*group, stream.peer());
      if (rank >= 0) group->inbox.on_payload(rank, header, sink, deferred_);
      return;
    }
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
    case FrameKind::goodbye:
      peer_left(stream.peer());
      return;
  }
}

void Messenger::leave(TimePoint deadline) {
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < peers_.size(); i++) {
      if (peers_[i].streams.empty() || peers_[i].gone()) continue;
      OutFrame frame;
      frame.header.kind = FrameKind::goodbye;
      enqueue(static_cast<int>(i), std::move(frame));
    }
  }
  const auto pending = [this] {
    const std::lock_guard lock(mutex_);
    return std::any_of(peers_.begin(), peers_.end(), [](const Peer& p) {
      return !p.gone() && std::any_of(p.streams.begin(), p.streams.end(),
                                      [](const auto& s) { return s->state() == Stream::State::open && !s->idle(); });
    });
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

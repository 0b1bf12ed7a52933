/// Peers, and the streams to them: how they come and how they end.

#include <fmt/format.h>

#include <algorithm>

#include "engine/messenger.h"

namespace unisono::engine {

using transport::Event;

namespace {
/// A stream that is opened beside others, or because somebody sends, must come about within this time.
constexpr Duration kDialTime = std::chrono::seconds(30);
}  // namespace

int Messenger::peer_locked(const PeerId& id) {
  const auto [it, fresh] = peer_index_.try_emplace(to_string(id), static_cast<int>(peers_.size()));
  if (fresh) {
    peers_.emplace_back(sharing_);
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
  if (!peer.bundle.empty() && peer.bundle.streams().front()->link().fd() >= 0) share(peer, peer.streams);
  return index;
}

void Messenger::dial(int index, TimePoint deadline) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[index];
  if (peer.bundle.empty() && peer.dialing == 0 && !peer.gone()) dial_locked(peer, deadline);
}

void Messenger::dial_locked(Peer& peer, TimePoint deadline) {
  peer.dialing++;
  connecting_++;
  transports_[peer.address.transport]->dial(peer.address.id, peer.address.address, deadline);
}

bool Messenger::connected(int peer) const {
  const std::lock_guard lock(mutex_);
  return !peers_[peer].bundle.empty();
}

Status Messenger::peer_status(int peer) const {
  const std::lock_guard lock(mutex_);
  return peers_[peer].status;
}

transport::SharedView* Messenger::shared(int peer) const {
  const std::lock_guard lock(mutex_);
  return shared_locked(peer);
}

transport::SharedView* Messenger::shared_locked(int peer) const {
  const Bundle& bundle = peers_[peer].bundle;
  return bundle.empty() ? nullptr : bundle.streams().front()->link().shared();
}

std::vector<Messenger::Neighbour> Messenger::neighbours() const {
  const std::lock_guard lock(mutex_);
  std::vector<Neighbour> found;
  for (Stream* stream : memory_streams_)
    if (const transport::SharedView* view = stream->link().shared(); view != nullptr && !peers_[stream->peer()].gone())
      found.push_back({peers_[stream->peer()].address.id, view->waits_on()});
  return found;
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
  peer.bundle.enqueue(std::move(frame), deferred_);
  if (peer.bundle.empty() && peer.dialing == 0) dial_locked(peer, saturating_add(clock_.now(), kDialTime));
}

// --- several streams -------------------------------------------------------------------------------------------------

void Messenger::use_streams(int peer, int streams) {
  const std::lock_guard lock(mutex_);
  share(peers_[peer], streams);
}

void Messenger::use_streams(const Sharing& sharing) {
  const std::lock_guard lock(mutex_);
  sharing_ = sharing;
  for (Peer& peer : peers_)
    if (peer.bundle.empty() || peer.bundle.streams().front()->link().fd() >= 0) share(peer, sharing.streams);
}

int Messenger::streams(int peer) const {
  const std::lock_guard lock(mutex_);
  return peers_[peer].bundle.open();
}

Duration Messenger::round_trip(int peer) const {
  const std::lock_guard lock(mutex_);
  const Bundle& bundle = peers_[peer].bundle;
  return bundle.empty() ? Duration{} : bundle.streams().front()->link().round_trip();
}

bool Messenger::opening(int peer) const {
  const std::lock_guard lock(mutex_);
  return peers_[peer].dialing > 0;
}

void Messenger::limit_streams(int peer, int streams) {
  const std::lock_guard lock(mutex_);
  peers_[peer].bundle.use(streams);
}

void Messenger::share(Peer& peer, int streams) {
  peer.streams = streams;
  if (streams == 0)
    streams = peer.known
                  ? std::min(transports_[peer.address.transport]->paths(peer.address.address), Sharing::kMostStreams)
                  : 1;
  peer.bundle.use(streams);
  if (!peer.dialed || peer.gone()) return;
  for (int have = peer.bundle.open() + peer.dialing; have < streams; have++)
    dial_locked(peer, saturating_add(clock_.now(), kDialTime));
  int extra = peer.bundle.open() - streams;
  for (std::size_t i = peer.bundle.streams().size(); i-- > 1 && extra > 0;) {
    Stream& stream = *peer.bundle.streams()[i];
    if (stream.said_last()) continue;
    stream.say_last();
    peer.bundle.flush(stream, deferred_);
    extra--;
  }
}

// --- what transports report ------------------------------------------------------------------------------------------

void Messenger::on_event(Event event) {
  const int index = peer_locked(event.peer);
  switch (event.kind) {
    case Event::Kind::up:
      on_up(index, std::move(event));
      break;
    case Event::Kind::failed:
      on_dial_failed(index, event.status);
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

void Messenger::on_up(int index, Event event) {
  Peer& peer = peers_[index];
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
  if (event.dialed && peer.dialing > 0) peer.dialing--, connecting_--;
  log_.debug(fmt::format("connected: {}", s->link().describe()));
  const bool first = peer.bundle.empty();
  peer.bundle.add(std::move(stream), deferred_);
  if (first) peer.dialed = event.dialed;
  if (first && fd >= 0) share(peer, peer.streams);
  if (fd >= 0 && !s->idle()) poller_.want_write(fd, true);
}

void Messenger::on_dial_failed(int index, const Status& status) {
  Peer& peer = peers_[index];
  if (peer.dialing > 0) peer.dialing--, connecting_--;
  if (!peer.bundle.empty()) {
    if (peer.bundle.open() >= peer.bundle.used()) return;  // the peer called us meanwhile
    log_.warn(fmt::format("{} stream{} to {} instead of {}: {}", peer.bundle.open(), peer.bundle.open() == 1 ? "" : "s",
                          describe_peer(index), peer.bundle.used(), status.message()));
    return;
  }
  peer.status = status;
  // Whoever was to get something now never will. Without a frame waiting, only the one who dialled cares.
  if (peer.bundle.waits()) peer_died(index, status.message(), true);
}

/// Read what a peer has sent before its end: it may say why.
void Messenger::drain(int index) {
  const bool within = std::exchange(draining_, true);
  const Bundle& bundle = peers_[index].bundle;
  for (bool moved = true; moved;) {  // parts on one stream may wait for their head on another
    moved = false;
    for (std::size_t i = 0; i < bundle.streams().size(); i++)  // by position: reading can add streams, never remove one
      while (bundle.streams()[i]->read(*this)) moved = true;
  }
  draining_ = within;
}

/// Notes a stream that has ended, or that both sides have done with.
void Messenger::look_after(Stream& stream) {
  const bool over =
      stream.state() != Stream::State::open ||
      (stream.said_last() && stream.heard_last() && stream.idle() && !peers_[stream.peer()].bundle.is_first(stream));
  if (over && std::find(ended_.begin(), ended_.end(), &stream) == ended_.end()) ended_.push_back(&stream);
}

/// Nobody looks at it any more. It goes, unless it is the first.
void Messenger::let_go(Stream& stream) {
  if (const int fd = stream.link().fd(); fd >= 0) {
    by_fd_.erase(fd);
    poller_.remove(fd);
  } else {
    std::erase(memory_streams_, &stream);
  }
  peers_[stream.peer()].bundle.remove(stream);
}

void Messenger::on_stream_end(Stream& stream) {
  const int fd = stream.link().fd();
  const bool known = fd >= 0
                         ? by_fd_.contains(fd)
                         : std::find(memory_streams_.begin(), memory_streams_.end(), &stream) != memory_streams_.end();
  if (!known) return;
  const int index = stream.peer();
  Peer& peer = peers_[index];
  const bool expected = stream.heard_last() || peer.gone();
  if (!expected) {
    drain(index);
    if (!peer.gone() && !peer.leaving) peer_died(index, peer.bundle.describe_ends(), true);
  }
  let_go(stream);
  // What was still to come of frames in parts never will, when no stream is left.
  if (peer.leaving && !peer.gone() && peer.bundle.open() == 0) peer_left(index);
}

}  // namespace unisono::engine

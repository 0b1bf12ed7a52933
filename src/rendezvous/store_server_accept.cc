/// Who comes in: accepting connections within bounds, and the handshake that makes a client of a stranger.

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "rendezvous/socket.h"
#include "rendezvous/store_server_impl.h"

namespace unisono::rendezvous::server {
namespace {
constexpr int kAcceptsPerRound =
    16;  // then the accepted get a turn: a flood cannot push out who is about to prove himself
constexpr auto kYoungest = std::chrono::milliseconds(100);         // not pushed out by newcomers before it is this old
constexpr auto kDescriptorPause = std::chrono::milliseconds(100);  // accepting rests so long when descriptors run out
}  // namespace

void Server::set_listener_mask(std::uint32_t events) {
  if (!listener_) return;
  epoll_event e{};
  e.events = events;
  e.data.u64 = kListener;
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &e);
}

void Server::pause_accepting(TimePoint until) {
  accept_again_ = until;
  set_listener_mask(0);
}

/// Room for one more stranger; otherwise those who knock wait in the kernel's queue for a moment.
bool Server::make_room() {
  if (strangers_.size() < options_.max_unauthenticated) return true;
  const Id oldest = *strangers_.begin();
  const TimePoint ripe = connections_.at(oldest).since + kYoungest;
  if (ripe > now()) {
    pause_accepting(ripe);
    return false;
  }
  close(oldest, "pushed out by newer connections before it proved itself");
  return true;
}

void Server::on_listener() {
  for (int i = 0; i < kAcceptsPerRound; i++) {
    if (!make_room()) return;
    Address from;
    from.length = sizeof from.storage;
    Fd fd = Fd::of_process_alone(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.length,
                                           SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      add_connection(std::move(fd), to_string(from));
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      options_.log.warn(fmt::format("store server at {}: cannot accept a connection: {}; trying again (ulimit -n?)",
                                    to_string(endpoint_), std::strerror(errno)));
      pause_accepting(now() + kDescriptorPause);
      return;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
    // ECONNABORTED and the like concern the one who knocked, not us.
  }
}

void Server::add_connection(Fd fd, std::string from) {
  if (auto s = check_peer_user(fd.get()); !s.ok()) {
    options_.log.debug(fmt::format("store server at {}: refused a connection: {}", to_string(endpoint_), s.message()));
    return;
  }
  const Id id = next_id_++;
  epoll_event e{};
  e.events = EPOLLIN | EPOLLRDHUP;
  e.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &e) != 0) return;
  Connection c;
  c.fd = std::move(fd);
  c.from = std::move(from);
  c.handshake = options_.handshake->accept();
  c.since = now();
  Connection& kept = connections_.emplace(id, std::move(c)).first->second;
  strangers_.insert(id);
  set_deadline(id, kept, kept.since + options_.handshake_timeout);
}

bool Server::advance_handshake(Id id, Connection& c, std::span<const std::byte> bytes) {
  c.handshake_bytes += bytes.size();
  std::size_t consumed = 0;
  const auto state = c.handshake->feed(bytes, consumed);
  const Bytes reply = c.handshake->take_output();
  // A handshake's messages fit into any socket's buffer: who has not read the last one gets no further.
  if (!reply.empty() &&
      ::send(c.fd.get(), reply.data(), reply.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(reply.size()))
    return close(id, "it does not take the handshake's answer");
  if (state == Handshake::State::rejected) return close(id, c.handshake->reason());
  if (state == Handshake::State::more)
    return c.handshake_bytes < kMaxBytesBeforeProof || close(id, "too many bytes before it proved itself");
  joined(id, c);
  return feed_frames(id, c, bytes.subspan(consumed));
}

void Server::joined(Id id, Connection& c) {
  c.handshake.reset();
  strangers_.erase(id);
  set_deadline(id, c, std::nullopt);
  count_clients(+1);
  if (accept_again_) accept_again_ = now();
}

}  // namespace unisono::rendezvous::server

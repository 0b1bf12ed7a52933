#include "rendezvous/store_server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <system_error>
#include <vector>

#include "rendezvous/socket.h"
#include "rendezvous/store_listen.h"
#include "rendezvous/store_server_impl.h"

namespace unisono::rendezvous {
namespace server {

Server::~Server() {
  if (!process_.here()) {  // a forked child has no such thread, and the parent's goes on
    new std::thread(std::move(thread_));
    return;
  }
  stopping_.store(true, std::memory_order_release);
  wake_thread();
  thread_.join();
}

void Server::wake_thread() noexcept {
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

void Server::stop_listening() {
  closed_to_newcomers_.store(true, std::memory_order_release);
  wake_thread();
}

void Server::serve() noexcept {
  ::pthread_setname_np(::pthread_self(), "unisono-store");
  while (!stopping_.load(std::memory_order_acquire)) {
    try {
      serve_round();
    } catch (const std::exception& e) {
      // Out of memory, in all likelihood. The job's store must outlive one bad request: drop nothing, say it, go on.
      options_.log.error(fmt::format("store server at {}: {}", to_string(endpoint_), e.what()));
    }
  }
  connections_.clear();
}

void Server::serve_round() {
  std::array<epoll_event, 64> events{};
  TimePoint next = deadlines_.empty() ? TimePoint::max() : deadlines_.begin()->first;
  if (accept_again_) next = std::min(next, *accept_again_);
  const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), milliseconds_until(next));
  for (int i = 0; i < n; i++) {
    const Id id = events[static_cast<std::size_t>(i)].data.u64;
    const std::uint32_t what = events[static_cast<std::size_t>(i)].events;
    if (id == kListener && listener_) on_listener();
    if (id == kWake) on_wake();
    if (id <= kWake) continue;
    const auto at = connections_.find(id);
    if (at == connections_.end()) continue;  // closed earlier in this round
    if (what & (EPOLLHUP | EPOLLERR | EPOLLRDHUP) && !(what & EPOLLIN)) {
      on_hang_up(id, at->second);
      continue;
    }
    if (what & EPOLLOUT && (!flush(id, at->second) || at->second.out || !take_requests(id, at->second))) continue;
    if (what & EPOLLIN) on_readable(id, at->second);
  }
  on_deadlines();
  publish_last_words();
}

/// The flags say what there is to do.
void Server::on_wake() {
  std::uint64_t count = 0;
  (void)!::read(wake_.get(), &count, sizeof count);
  if (closed_to_newcomers_.load(std::memory_order_acquire)) listener_ = Fd();
  const std::lock_guard lock(mutex_);
  std::ranges::move(handed_in_, std::back_inserter(due_));
  handed_in_.clear();
}

// --- one connection -------------------------------------------------------------------------------------------------

bool Server::close(Id id, std::string_view why) {
  const auto at = connections_.find(id);
  if (at == connections_.end()) return false;
  Connection& c = at->second;
  options_.log.debug(fmt::format("store server at {}: connection from {}{}: {}", to_string(endpoint_), c.from,
                                 c.authenticated() ? "" : " (a stranger)", why));
  unpark(id, c);
  set_deadline(id, c, std::nullopt);
  buffered_ -= c.counted;
  const bool was_client = c.authenticated();
  strangers_.erase(id);
  std::ranges::move(c.last_words, std::back_inserter(due_));
  connections_.erase(at);
  if (was_client) count_clients(-1);
  if (accept_again_) accept_again_ = now();  // there is room, and a descriptor, again
  return false;
}

void Server::count_clients(int delta) {
  std::lock_guard lock(mutex_);
  clients_ += delta;
  if (clients_ == 0) idle_.notify_all();
}

void Server::set_deadline(Id id, Connection& c, std::optional<TimePoint> deadline) {
  if (c.deadline) deadlines_.erase({*c.deadline, id});
  c.deadline = deadline;
  if (deadline) deadlines_.emplace(*deadline, id);
}

void Server::set_mask(Id id, const Connection& c) {
  epoll_event e{};
  e.events = EPOLLRDHUP;
  if (c.out) e.events |= EPOLLOUT;
  if (!c.out && !c.parked) e.events |= EPOLLIN;
  e.data.u64 = id;
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, c.fd.get(), &e);
}

void Server::on_readable(Id id, Connection& c) {
  std::array<std::byte, 64 * 1024> buffer;
  const std::size_t room = c.authenticated() ? buffer.size() : kMaxBytesBeforeProof - c.handshake_bytes;
  const ssize_t n = ::recv(c.fd.get(), buffer.data(), room, 0);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (n <= 0) {
    close(id, n == 0 ? "closed by the other side" : std::strerror(errno));
    return;
  }
  std::span<const std::byte> bytes(buffer.data(), static_cast<std::size_t>(n));
  if (c.authenticated())
    feed_frames(id, c, bytes);
  else
    advance_handshake(id, c, bytes);
}

bool Server::feed_frames(Id id, Connection& c, std::span<const std::byte> bytes) {
  if (auto s = c.in.feed(bytes); !s.ok()) return close(id, s.message());
  buffered_ += c.in.buffered() - c.counted;
  c.counted = c.in.buffered();
  if (values_.bytes() + buffered_ > options_.max_memory)
    return close(id, fmt::format("the store is full: {} bytes in values, {} in requests", values_.bytes(), buffered_));
  return take_requests(id, c);
}

bool Server::take_requests(Id id, Connection& c) {
  while (!c.out && !c.parked) {
    auto frame = c.in.next();
    buffered_ -= c.counted - c.in.buffered();
    c.counted = c.in.buffered();
    if (!frame) break;
    auto request = decode_request(*frame);
    if (!request) return close(id, request.status().message());
    StoreResponse response = request->op == StoreOp::when_gone ? keep_last_words(c, *request) : values_.apply(*request);
    const bool changed =
        request->op == StoreOp::set || request->op == StoreOp::add || request->op == StoreOp::compare_set;
    if (response.code == StoreCode::timeout && request->timeout > Duration{0}) {
      c.parked_on = response.missing.front();
      const TimePoint deadline = saturating_add(now(), request->timeout);
      park(id, c, std::move(*request), deadline);
      break;
    }
    if (!answer(id, c, std::move(response))) return false;
    if (changed) wake_waiters(request->keys.front());
  }
  set_mask(id, c);
  return true;
}

bool Server::answer(Id id, Connection& c, StoreResponse response) {
  Outgoing out;
  out.head = encode_head(response);
  out.value = std::move(response.value);
  c.out = std::move(out);
  return flush(id, c);
}

/// Send what the socket takes of the answer.
bool Server::flush(Id id, Connection& c) {
  while (c.out) {
    Outgoing& out = *c.out;
    std::array<iovec, 2> parts{};
    std::size_t count = 0;
    const auto add = [&](const Bytes& bytes, std::size_t skip) {
      if (skip < bytes.size()) parts[count++] = {const_cast<std::byte*>(bytes.data()) + skip, bytes.size() - skip};
    };
    add(out.head, out.sent);
    if (out.value) add(*out.value, out.sent > out.head.size() ? out.sent - out.head.size() : 0);
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t n = ::sendmsg(c.fd.get(), &message, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      set_mask(id, c);
      return true;
    }
    if (n < 0) return close(id, std::strerror(errno));
    out.sent += static_cast<std::size_t>(n);
    if (out.sent == out.size()) c.out.reset();
  }
  return true;
}

// --- waiting --------------------------------------------------------------------------------------------------------

void Server::park(Id id, Connection& c, StoreRequest request, TimePoint deadline) {
  c.parked = std::move(request);
  waiting_.emplace(c.parked_on, id);
  set_deadline(id, c, deadline);
}

void Server::unpark(Id id, Connection& c) {
  if (!c.parked) return;
  const auto [begin, end] = waiting_.equal_range(c.parked_on);
  const auto at = std::find_if(begin, end, [id](const auto& entry) { return entry.second == id; });
  if (at != end) waiting_.erase(at);
  c.parked.reset();
  set_deadline(id, c, std::nullopt);
}

void Server::wake_waiters(const std::string& key) {
  std::vector<Id> woken;
  const auto [begin, end] = waiting_.equal_range(key);
  for (auto i = begin; i != end; ++i) woken.push_back(i->second);
  for (const Id id : woken) retry_parked(id);
}

/// A key it waited for is there, or its time is over: answer, or park it on the next key that is missing.
void Server::retry_parked(Id id) {
  const auto at = connections_.find(id);
  if (at == connections_.end() || !at->second.parked) return;
  Connection& c = at->second;
  StoreRequest request = std::move(*c.parked);
  const TimePoint deadline = c.deadline.value_or(TimePoint::max());
  unpark(id, c);
  StoreResponse response = values_.apply(request);
  if (response.code == StoreCode::timeout && now() < deadline) {
    c.parked_on = response.missing.front();
    park(id, c, std::move(request), deadline);
    return;
  }
  if (answer(id, c, std::move(response))) take_requests(id, c);
}

void Server::on_deadlines() {
  if (accept_again_ && *accept_again_ <= now()) {
    accept_again_.reset();
    set_listener_mask(EPOLLIN);
  }
  while (!deadlines_.empty() && deadlines_.begin()->first <= now()) {
    const Id id = deadlines_.begin()->second;
    if (connections_.at(id).authenticated())
      retry_parked(id);
    else
      close(id, fmt::format("it did not prove itself within {:.1f} s",
                            std::chrono::duration<double>(options_.handshake_timeout).count()));
  }
}

}  // namespace server

Result<std::unique_ptr<StoreServer>> StoreServer::start(const Endpoint& at, StoreServerOptions options) {
  if (!options.handshake) return Status::internal("a store server without a handshake");
  auto listener = listen_for_store(at, options.any_address_if_not_ours, options.log);
  if (!listener) return listener.status();
  Endpoint actual = at;
  if (const auto bound = local_address(listener->get()); bound && !at.is_unix()) {
    const auto* in4 = reinterpret_cast<const sockaddr_in*>(&bound->storage);
    const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&bound->storage);
    actual.port = ntohs(bound->family() == AF_INET6 ? in6->sin6_port : in4->sin_port);
  }
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll || !wake) return Status::system("cannot start the store server", errno);
  for (const auto& [fd, id] : {std::pair{listener->get(), server::kListener}, std::pair{wake.get(), server::kWake}}) {
    epoll_event e{};
    e.events = EPOLLIN;
    e.data.u64 = id;
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &e) != 0)
      return Status::system("cannot start the store server", errno);
  }
  try {
    return std::unique_ptr<StoreServer>(std::make_unique<server::Server>(actual, std::move(*listener), std::move(epoll),
                                                                         std::move(wake), std::move(options)));
  } catch (const std::system_error& e) {
    return Status::system("cannot start the store server's thread", e.code().value());
  }
}

}  // namespace unisono::rendezvous

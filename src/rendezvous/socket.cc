#include "rendezvous/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>

namespace unisono::rendezvous {
namespace {

constexpr int kBacklog = 4096;  // the kernel cuts it to net.core.somaxconn

Address unix_address(const std::string& name) {
  Address a;
  sockaddr_un u{};
  u.sun_family = AF_UNIX;
  // A leading zero byte: the name lives in the network namespace, not in the file system, and goes away with its owner.
  const std::size_t n = std::min(name.size(), sizeof u.sun_path - 1);
  std::memcpy(u.sun_path + 1, name.data(), n);
  std::memcpy(&a.storage, &u, sizeof u);
  a.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + n);
  return a;
}

}  // namespace

std::string to_string(const Address& a) {
  if (a.family() == AF_UNIX) {
    const auto* u = reinterpret_cast<const sockaddr_un*>(&a.storage);
    const std::size_t n = a.length - offsetof(sockaddr_un, sun_path);
    return n > 1 ? "unix:@" + std::string(u->sun_path + 1, n - 1) : "unix socket";
  }
  char host[NI_MAXHOST] = {}, port[NI_MAXSERV] = {};
  if (::getnameinfo(a.get(), a.length, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "unknown address";
  return a.family() == AF_INET6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<std::vector<Address>> resolve(const Endpoint& e) {
  if (e.is_unix()) return std::vector<Address>{unix_address(e.name)};
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (e.host.empty() ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const std::string port = std::to_string(e.port);
  const int error = ::getaddrinfo(e.host.empty() ? nullptr : e.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0)
    return Status::system(fmt::format("the name \"{}\" has no address: {}", e.host,
                                      error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error)),
                          0);
  std::vector<Address> addresses;
  for (const addrinfo* i = found; i != nullptr; i = i->ai_next) {
    Address a;
    a.length = std::min<socklen_t>(i->ai_addrlen, sizeof a.storage);
    std::memcpy(&a.storage, i->ai_addr, a.length);
    addresses.push_back(a);
  }
  ::freeaddrinfo(found);
  return addresses;
}

Result<Fd> listen_on(const Address& a) {
  Fd fd = Fd::of_process_alone(::socket(a.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return Status::system(fmt::format("cannot make a socket for {}", to_string(a)), errno);
  const int on = 1, off = 0;
  // A port in TIME_WAIT from the job before must not be "in use"; one with a listener still is.
  if (a.family() != AF_UNIX) (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (a.family() == AF_INET6) {
    // "Every address" is bound as :: and serves IPv4 too; a given address serves itself alone.
    const bool any = IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&a.storage)->sin6_addr);
    (void)::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, any ? &off : &on, sizeof on);
  }
  if (::bind(fd.get(), a.get(), a.length) != 0)
    return Status::system(fmt::format("cannot listen on {}", to_string(a)), errno);
  if (::listen(fd.get(), kBacklog) != 0) return Status::system(fmt::format("cannot listen on {}", to_string(a)), errno);
  return fd;
}

Result<Address> local_address(int fd) {
  Address a;
  a.length = sizeof a.storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&a.storage), &a.length) != 0)
    return Status::system("cannot ask a socket for its address", errno);
  return a;
}

int milliseconds_until(TimePoint deadline) {
  if (deadline == TimePoint::max()) return -1;
  const Duration left = deadline - std::chrono::steady_clock::now();
  if (left <= Duration{0}) return 0;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::min<std::int64_t>(ms, std::numeric_limits<int>::max()));
}

bool wait_for(int fd, short events, TimePoint deadline) {
  for (;;) {
    pollfd p{fd, events, 0};
    const int timeout = milliseconds_until(deadline);
    const int n = ::poll(&p, 1, timeout);
    if (n > 0) return true;
    if (n == 0 && milliseconds_until(deadline) == 0) return false;
    if (n < 0 && errno != EINTR) return true;  // the read or write that follows reports what is wrong
  }
}

Result<Fd> connect_to(const Address& a, TimePoint deadline) {
  const auto failed = [&](int error) { return Status::system(to_string(a), error); };
  Fd fd = Fd::of_process_alone(::socket(a.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return failed(errno);
  if (::connect(fd.get(), a.get(), a.length) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return failed(errno);
    if (!wait_for(fd.get(), POLLOUT, deadline)) return failed(ETIMEDOUT);
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) return failed(error);
  }
  const int on = 1;
  if (a.family() != AF_UNIX) {
    (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    // A parked get sends nothing for long: keep-alives notice that the server's host has gone.
    const int idle = 15, interval = 5, count = 4;
    (void)::setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    // A port can be connected to itself when nobody listens and the kernel picks it as the source: not a server.
    const auto mine = local_address(fd.get());
    if (mine && mine->length == a.length && std::memcmp(&mine->storage, &a.storage, a.length) == 0)
      return failed(ECONNREFUSED);
  }
  return fd;
}

Status check_peer_user(int fd) {
  sockaddr_storage name{};
  socklen_t length = sizeof name;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0) return Status::system("getsockname", errno);
  if (name.ss_family != AF_UNIX) return {};
  ucred peer{};
  length = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return Status::system("cannot ask who the peer is", errno);
  if (peer.uid == ::geteuid() || peer.uid == 0) return {};
  return Status::authentication(
      fmt::format("the process on the other side (pid {}) belongs to user {}, this one to user {}", peer.pid, peer.uid,
                  ::geteuid()));
}

}  // namespace unisono::rendezvous

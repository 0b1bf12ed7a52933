#pragma once
/// Two ends of a TCP connection for the programs beside this file. What goes wrong ends the program.

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

[[noreturn]] inline void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

inline sockaddr_in address_of(const char* text, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET, text, &address.sin_addr) != 1) die(text);
  return address;
}

/// A connection has the system's congestion control, or one that never sends by a clock: what BBR's timers cost is no bound of sockets.
enum class Pace : std::uint8_t { system, none };

inline int tcp_socket(Pace pace) {
  constexpr char kReno[] = "reno";
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) die("socket");
  if (pace == Pace::none && ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kReno, sizeof kReno - 1) != 0) die("reno");
  return fd;
}

inline int listen_at(sockaddr_in& address, Pace pace = Pace::system) {
  const int fd = tcp_socket(pace), one = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  socklen_t length = sizeof address;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(fd, 1) != 0) die("listen");
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return fd;
}

inline int call(const sockaddr_in& address, Pace pace = Pace::system) {
  for (int attempt = 0; attempt < 1000; attempt++) {  // the other side may not listen yet
    const int fd = tcp_socket(pace);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
    if (errno != ECONNREFUSED) die("connect");
    ::close(fd);
    ::poll(nullptr, 0, 10);
  }
  die("connect");
}

/// Sends `out` and receives `in`, both at once, until both are done.
inline void exchange(int fd, const char* out, std::size_t to_send, char* in, std::size_t to_get) {
  constexpr std::size_t kChunk = 256 << 10;
  for (std::size_t sent = 0, got = 0; sent < to_send || got < to_get;) {
    bool moved = false;
    if (sent < to_send) {
      const ssize_t n = ::send(fd, out + sent, std::min(kChunk, to_send - sent), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno != EAGAIN) die("send");
      if (n > 0) sent += static_cast<std::size_t>(n), moved = true;
    }
    if (got < to_get) {
      const ssize_t n = ::recv(fd, in + got, std::min(kChunk, to_get - got), MSG_DONTWAIT);
      if (n == 0) std::exit(1);
      if (n < 0 && errno != EAGAIN) die("recv");
      if (n > 0) got += static_cast<std::size_t>(n), moved = true;
    }
    if (moved) continue;
    pollfd wait{fd, static_cast<short>((sent < to_send ? POLLOUT : 0) | (got < to_get ? POLLIN : 0)), 0};
    ::poll(&wait, 1, 100);
  }
}

#include "transport/tcp/link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>

namespace unisono::transport::tcp {

namespace {

constexpr std::size_t kMaxParts = 128;  // the rest of a longer list waits for the next call: partial writes are normal
constexpr int kUserTimeoutMs = 30000;
// What is on its way is to stay in the caches; what was sent is to find room, whether or not its reader has the core.
constexpr int kLocalSend = 384 << 10, kLocalReceive = 2 << 20;

struct Vectors {
  std::array<iovec, kMaxParts> parts;
  std::size_t count = 0;

  template <class Parts>
  explicit Vectors(const Parts& from) noexcept {
    for (const auto& part : from) {
      if (count == kMaxParts) return;
      if (part.empty()) continue;
      parts[count++] = {const_cast<std::byte*>(part.data()), part.size()};
    }
  }
  msghdr message() noexcept {
    msghdr m{};
    m.msg_iov = parts.data();
    m.msg_iovlen = count;
    return m;
  }
};

void set(int fd, int level, int option, int value) noexcept { ::setsockopt(fd, level, option, &value, sizeof value); }

}  // namespace

void tune(int fd) noexcept {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
}

bool allows_large_buffers() {
  // Asking for more than the limit would be worse than not asking: it gives the limit, for good.
  const auto limit = [](const char* name) {
    int bytes = 0;
    std::ifstream(name) >> bytes;
    return bytes;
  };
  return limit("/proc/sys/net/core/rmem_max") >= kLocalReceive && limit("/proc/sys/net/core/wmem_max") >= kLocalSend;
}

void tune_local(int fd) noexcept {
  set(fd, SOL_SOCKET, SO_SNDBUF, kLocalSend);
  set(fd, SOL_SOCKET, SO_RCVBUF, kLocalReceive);
}

TcpLink::TcpLink(Fd fd, std::string description, std::weak_ptr<Departed> departed)
    : fd_(std::move(fd)), description_(std::move(description)), departed_(std::move(departed)), owner_(::getpid()) {}

TcpLink::~TcpLink() {
  if (::getpid() != owner_) return;  // a forked child: the connection is its parent's
  ::shutdown(fd_.get(), SHUT_WR);    // closing is not enough: a forked child may hold the socket too
  if (over_) return;
  if (const auto departed = departed_.lock()) departed->add(std::move(fd_));
}

Io TcpLink::write(std::span<const ConstPart> parts) noexcept {
  Vectors vectors(parts);
  if (vectors.count == 0) return {};
  const msghdr message = vectors.message();
  while (true) {
    // One part needs no list for the kernel to copy and check, which is a tenth of a call that finds nothing to do.
    const ssize_t n = vectors.count == 1 ? ::send(fd_.get(), vectors.parts[0].iov_base, vectors.parts[0].iov_len,
                                                  MSG_NOSIGNAL | MSG_DONTWAIT)
                                         : ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) return {Io::State::ok, static_cast<std::size_t>(n), 0};
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) return {};
    if (errno != EINTR) return {Io::State::failed, 0, errno};
  }
}

Io TcpLink::read(std::span<const MutablePart> parts) noexcept {
  Vectors vectors(parts);
  if (vectors.count == 0) return {};
  msghdr message = vectors.message();
  while (true) {
    const ssize_t n = vectors.count == 1
                          ? ::recv(fd_.get(), vectors.parts[0].iov_base, vectors.parts[0].iov_len, MSG_DONTWAIT)
                          : ::recvmsg(fd_.get(), &message, MSG_DONTWAIT);
    if (n > 0) return {Io::State::ok, static_cast<std::size_t>(n), 0};
    if (n == 0) {
      over_ = true;
      return {Io::State::closed, 0, 0};
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
    if (errno == EINTR) continue;
    over_ = true;
    return {Io::State::failed, 0, errno};
  }
}

}  // namespace unisono::transport::tcp

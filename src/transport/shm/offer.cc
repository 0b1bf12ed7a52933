#include "transport/shm/offer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "transport/shm/layout.h"

namespace unisono::transport::shm {

namespace {
constexpr std::size_t kFdBytes = 2 * sizeof(int);
struct Control {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kFdBytes)> bytes{};
};
}  // namespace

OfferExchange::OfferExchange(const Offer& mine, int segment, int doorbell) : send_fds_{segment, doorbell} {
  std::memcpy(out_.data(), &mine, sizeof mine);
}

Offer OfferExchange::theirs() const noexcept {
  Offer offer;
  std::memcpy(&offer, in_.data(), sizeof offer);
  return offer;
}

OfferExchange::State OfferExchange::fail(std::string reason) {
  reason_ = std::move(reason);
  return State::failed;
}

OfferExchange::State OfferExchange::pump(int socket) {
  if (send(socket) == State::failed) return State::failed;
  if (receive(socket) == State::failed) return State::failed;
  return sent_ == sizeof(Offer) && got_ == sizeof(Offer) ? State::done : State::more;
}

OfferExchange::State OfferExchange::send(int socket) {
  while (sent_ < sizeof(Offer)) {
    iovec part{out_.data() + sent_, sizeof(Offer) - sent_};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    Control control;
    if (sent_ == 0) {  // descriptors travel with the first byte
      message.msg_control = control.bytes.data();
      message.msg_controllen = control.bytes.size();
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(kFdBytes);
      std::memcpy(CMSG_DATA(header), send_fds_.data(), kFdBytes);
    }
    const ssize_t n = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return State::more;
    if (n < 0) return fail(fmt::format("cannot pass the shared memory: {}", std::strerror(errno)));
    sent_ += static_cast<std::size_t>(n);
  }
  return State::done;
}

OfferExchange::State OfferExchange::receive(int socket) {
  while (got_ < sizeof(Offer)) {
    iovec part{in_.data() + got_, sizeof(Offer) - got_};
    Control control;
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    const ssize_t n = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return State::more;
    if (n < 0) return fail(fmt::format("the connection failed: {}", std::strerror(errno)));
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int raw = -1;
        std::memcpy(&raw, CMSG_DATA(header) + i * sizeof raw, sizeof raw);
        Fd fd(raw);
        if (got_fds_ < fds_.size()) fds_[got_fds_++] = std::move(fd);
      }
    }
    if (n == 0) return fail("the connection was closed before the shared memory was passed");
    if (message.msg_flags & MSG_CTRUNC)
      return fail("the peer's descriptors did not arrive: is the limit of open files (ulimit -n) reached?");
    got_ += static_cast<std::size_t>(n);
  }
  const Offer offer = theirs();
  if (offer.magic != kMagic || offer.version != kVersion) return fail("it speaks another version of unisono");
  if (got_fds_ != fds_.size()) return fail("its shared memory did not come along");
  // We ring this doorbell in the middle of everything: it must never block us.
  const int flags = ::fcntl(fds_[1].get(), F_GETFL);
  if (flags < 0 || (flags & O_NONBLOCK) == 0 || (flags & O_ACCMODE) == O_RDONLY) return fail("its doorbell is not one");
  return State::done;
}

}  // namespace unisono::transport::shm

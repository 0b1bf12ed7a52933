#pragma once
/// A Link on a connected TCP socket, and what becomes of the socket afterwards.

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/fd.h"
#include "transport/transport.h"

namespace unisono::transport::tcp {

/// Sockets whose link is gone but whose last bytes may still be on their way. Closing a socket that has unread input resets the
/// connection and destroys what we had sent; so the transport reads them empty first. Thread-safe.
class Departed {
 public:
  void add(Fd fd) {
    const std::lock_guard lock(mutex_);
    sockets_.push_back(std::move(fd));
  }
  std::vector<Fd> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(sockets_, {});
  }
  bool empty() const {
    const std::lock_guard lock(mutex_);
    return sockets_.empty();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Fd> sockets_;
};

/// The shortest round trip that the kernel has seen on a connected socket; zero when it does not say.
Duration shortest_round_trip(int fd) noexcept;

/// Take the descriptor out of the Poller before destroying the link.
class TcpLink final : public Link {
 public:
  TcpLink(Fd fd, std::string description, std::weak_ptr<Departed> departed);
  ~TcpLink() override;
  Io write(std::span<const ConstPart> parts) noexcept override;
  Io read(std::span<const MutablePart> parts) noexcept override;
  int fd() const noexcept override { return fd_.get(); }
  SharedView* shared() noexcept override { return nullptr; }
  Duration round_trip() const noexcept override { return shortest_round_trip(fd_.get()); }
  std::string describe() const override { return description_; }

 private:
  Fd fd_;
  std::string description_;
  std::weak_ptr<Departed> departed_;
  pid_t owner_;
  bool over_ = false;  ///< the peer's side has ended: nothing can be unread
};

/// No delay, keep-alive, and an end to retransmission after 30 s.
void tune(int fd) noexcept;

/// Whether this system lets a socket have buffers as large as tune_local() wants them.
bool allows_large_buffers();
/// Buffers of a fixed size from the start, for a connection that does not leave the host: the kernel makes them grow with round-trip times,
/// of which there are hardly any here, and a slice that does not fit at once takes half as long again.
void tune_local(int fd) noexcept;

}  // namespace unisono::transport::tcp

#pragma once
/// A transport's own epoll set. It is itself one descriptor, which is all that the poller has to watch.

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace unisono::transport {

/// Descriptors by token, level-triggered. One thread at a time. A forked child cannot change the parent's set through it.
class Watch {
 public:
  static Result<std::unique_ptr<Watch>> create();
  Status add(int fd, std::uint64_t token, bool write = false);
  void want_write(int fd, std::uint64_t token, bool write);
  /// Before closing the descriptor: a forked child may hold it open, and then closing does not end the watching.
  void remove(int fd) noexcept;
  /// The tokens that are ready now, appended. Does not wait.
  void ready(std::vector<std::uint64_t>& tokens);
  int fd() const noexcept { return epoll_.get(); }
  bool foreign() const noexcept;  ///< in a forked child

 private:
  Watch(Fd epoll, pid_t owner) : epoll_(std::move(epoll)), owner_(owner) {}
  Fd epoll_;
  pid_t owner_;
};

}  // namespace unisono::transport

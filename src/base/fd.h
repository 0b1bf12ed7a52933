#pragma once
/// An owned file descriptor.

#include <unistd.h>

#include <utility>

namespace unisono {

/// Closes on destruction. Thread-safety: a value; not to be shared unguarded.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)), alone_(std::exchange(other.alone_, false)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
      alone_ = std::exchange(other.alone_, false);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  /// A descriptor that children of fork() close at once, for sockets: otherwise a peer sees the end
  /// of this process only when the last of its children ends. Children of the bare system call keep
  /// their copy, and descriptors above 65535 are kept, too. The Fd's copy in a child closes
  /// nothing.
  static Fd of_process_alone(int fd) noexcept;

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept {
    if (alone_) (void)disown();
    return std::exchange(fd_, -1);
  }
  void reset() noexcept {
    if (fd_ >= 0 && (!alone_ || disown())) ::close(fd_);
    fd_ = -1;
  }

 private:
  /// Children may keep it from now on; false in a child, which has closed it.
  bool disown() noexcept;

  int fd_ = -1;
  bool alone_ = false;
};

}  // namespace unisono

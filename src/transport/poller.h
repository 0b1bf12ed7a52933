#pragma once
/// The sleep seam over epoll. One a process (a thread, for ranks that are threads).

#include <sys/epoll.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/fd.h"
#include "transport/transport.h"

namespace unisono::transport {

/// epoll, an eventfd as a doorbell, and words in shared memory that tell peers whether ringing is needed.
/// add(), remove(), want_write() and announce_in() belong to the thread that holds the I/O lock; wake() to any thread. In a
/// forked child the object is inert: the epoll set is the parent's.
class EpollPoller final : public Poller {
 public:
  static Result<std::unique_ptr<EpollPoller>> create();

  void add(int fd) override;
  void remove(int fd) override;
  void want_write(int fd, bool on) override;
  void prepare() noexcept override;
  void cancel() noexcept override;
  void wait(Duration timeout) noexcept override;
  void poll(std::vector<int>& ready) noexcept override;
  void wake() noexcept override;

  /// While this process sleeps `parked` is not 0. For a word of a shared segment, so that peers' wake() is a load.
  void announce_in(std::atomic<std::uint32_t>& parked);
  void forget(std::atomic<std::uint32_t>& parked) noexcept;
  /// An eventfd; writing to it ends wait(). Peers get a duplicate.
  std::shared_ptr<const Fd> doorbell() const noexcept { return doorbell_; }

 private:
  EpollPoller(Fd epoll, std::shared_ptr<const Fd> doorbell, pid_t owner);
  void control(int fd, std::uint32_t events);
  bool foreign() const noexcept;
  int sleep(epoll_event* events, int count, Duration timeout) noexcept;

  Fd epoll_;
  std::shared_ptr<const Fd> doorbell_;
  pid_t owner_;
  std::atomic<std::uint32_t> parked_{0};
  std::vector<std::atomic<std::uint32_t>*> words_;
  std::unordered_map<int, std::uint32_t> watched_;  ///< descriptor to epoll events
  std::vector<int> unwatched_;                      ///< the kernel refused to watch these: always reported as ready
  std::vector<epoll_event> events_;
  bool coarse_ = false;  ///< the kernel has no epoll_pwait2
};

/// Ring a doorbell. Never blocks; a full counter is as good as a ring.
void ring(const Fd& doorbell) noexcept;

}  // namespace unisono::transport

#pragma once
/// All that this process has lent, so that fork() copies it as it copies other private memory: before anything else of it runs, the child gets pages of its own
/// with the contents at the time of the fork.
///
/// With base/fd.cc the one exception to "no global mutable state": pthread_atfork() takes functions without an argument, and what it was given
/// once stays. It is one list for the process because fork() is one for the process.

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/shm/lent.h"
#include "transport/shm/snapshot.h"

namespace unisono::transport::shm {

/// Thread-safety: any thread. What changes waits for a fork that is under way, and a fork for what changes.
class LentList {
 public:
  /// The process's. It is never destroyed: forks may come until the very end.
  static LentList& of_process();
  LentList(const LentList&) = delete;
  LentList& operator=(const LentList&) = delete;

  /// Lends the pages of `lent` (shm::lend) when `prepare`, which returns a Status, has looked at them and brought their contents to `contents`.
  /// A fork comes before all of it or after, and so does another add().
  template <class Prepare>
  Status add(Lent& lent, int fd, const std::byte* contents, Prepare&& prepare) {
    const std::lock_guard lock(mutex_);
    UNISONO_TRY(ready());
    all_.reserve(all_.size() + 1);
    UNISONO_TRY(prepare());
    UNISONO_TRY(lend(lent, fd, contents));
    all_.push_back(lent);
    return {};
  }
  /// The same for pages that are a file's from the beginning, and which the program has from now on.
  Status add(const Lent& lent);
  /// The program has them no more: nothing is done with them.
  void forget(const Lent& lent) noexcept;
  /// Private pages again (shm::make_private); those that are not `lent` any more are left alone. After an error they stay shared, and stay in the list.
  Status remove(const Lent& lent, RegisteredMemory::Contents contents) noexcept;
  /// The same without loss (shm::take_over).
  Status take_over(const Lent& lent, int fd) noexcept;
  /// An operation begins, which will change contents: what was kept for further children of the same kind goes.
  void contents_change() noexcept {
    if (has_snapshot_.load(std::memory_order_relaxed)) drop_snapshot();
  }
  /// How often the process has forked while something was lent.
  std::uint64_t forks() const noexcept { return forks_.load(std::memory_order_relaxed); }

 private:
  LentList() = default;
  Status ready();
  void before_fork() noexcept;
  void in_parent() noexcept;
  void in_child() noexcept;

  void drop_snapshot() noexcept;
  void erase(const Lent& lent) noexcept;

  std::mutex mutex_;
  bool watching_ = false;  ///< fork() calls us
  std::vector<Lent> all_;
  std::atomic<std::uint64_t> forks_{0};
  /// What the last children got, for the next ones, until an operation begins or the contents turn out to have changed.
  std::optional<Snapshot> snapshot_;
  std::atomic<bool> has_snapshot_{false};
  std::string no_snapshot_;  ///< during a fork: why there is none
};

}  // namespace unisono::transport::shm

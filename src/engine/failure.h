#pragma once
/// The first reason why a group cannot go on, or may not be able to. Everything that waits looks at
/// it.

#include <atomic>
#include <mutex>

#include "base/status.h"

namespace unisono::engine {

/// Set once; the first reason wins. Thread-safety: any thread; failed() is one load.
class Failure {
 public:
  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  /// Whether this call was the first.
  bool set(const Status& status);
  Status status() const;
  /// A member has left in good order: whoever needs it waits in vain.
  void note_departure() noexcept { departed_.store(true, std::memory_order_release); }
  bool departed() const noexcept { return departed_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> failed_{false}, departed_{false};
  mutable std::mutex mutex_;
  Status status_;
};

}  // namespace unisono::engine

#pragma once
/// The end of an asynchronous operation: done or failed, once, with what wants to know.

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/status.h"

namespace unisono::engine {

/// What arrived, for receives.
struct Arrival {
  int source = -1;
  std::int64_t tag = 0;
  std::int64_t bytes = 0;
};

/// Thread-safety: any thread. complete() is called once; callbacks are handed back to be run when no lock is held.
class Completion {
 public:
  using Callbacks = std::vector<std::function<void()>>;

  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  [[nodiscard]] Callbacks complete(Status status, Arrival arrival = {}) {
    const std::lock_guard lock(mutex_);
    if (done_.load(std::memory_order_relaxed)) return {};
    status_ = std::move(status);
    arrival_ = arrival;
    done_.store(true, std::memory_order_release);
    return std::exchange(callbacks_, {});
  }
  /// Run `f` after completion; returns false when it is already there (the caller then runs it).
  bool on_done(std::function<void()>& f) {
    const std::lock_guard lock(mutex_);
    if (done_.load(std::memory_order_relaxed)) return false;
    callbacks_.push_back(std::move(f));
    return true;
  }
  /// Meaningful once done().
  const Status& status() const noexcept { return status_; }
  Arrival arrival() const noexcept { return arrival_; }

 private:
  std::atomic<bool> done_{false};
  std::mutex mutex_;
  Status status_;
  Arrival arrival_;
  Callbacks callbacks_;
};

/// Once the lock is gone under which they were gathered.
inline void run(const Completion::Callbacks& callbacks) {
  for (const auto& c : callbacks) c();
}

/// Callbacks gathered under a lock, run after it.
class Deferred {
 public:
  void add(Completion::Callbacks callbacks) {
    for (auto& c : callbacks) list_.push_back(std::move(c));
  }
  bool empty() const noexcept { return list_.empty(); }
  Completion::Callbacks take() { return std::exchange(list_, {}); }

 private:
  Completion::Callbacks list_;
};

}  // namespace unisono::engine

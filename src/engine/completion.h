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

/// What is to be checked at the end of an operation: see UNISONO_DEBUG. Thread-safety: any thread.
class EndCheck {
 public:
  virtual ~EndCheck() = default;
  /// Once, before anybody hears of the end: the status that they get.
  virtual Status ended(Status status, const Arrival& arrival) = 0;
  /// The program hears of the end: the status that it gets, from now on.
  virtual Status seen() = 0;
  /// The program will not ask, so what it does after the end is not checked.
  virtual void disown() = 0;
  virtual Status outcome() const = 0;
};

/// How many of something are under way.
using UnderWay = std::atomic<std::int64_t>;

/// Thread-safety: any thread. complete() is called once; callbacks are handed back to be run when no lock is held.
class Completion {
 public:
  using Callbacks = std::vector<std::function<void()>>;

  Completion() = default;
  /// One of `counted`, where that is given, until it is complete or nobody can complete it any more.
  explicit Completion(const std::shared_ptr<UnderWay>& counted) { count(counted); }
  ~Completion() {
    if (counted_ && !done()) counted_->fetch_sub(1);
  }
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  [[nodiscard]] Callbacks complete(Status status, Arrival arrival = {}) {
    const std::lock_guard lock(mutex_);
    if (done_.load(std::memory_order_relaxed)) return {};
    status_ = check_ != nullptr ? check_->ended(std::move(status), arrival) : std::move(status);
    arrival_ = arrival;
    done_.store(true, std::memory_order_release);
    if (counted_) counted_->fetch_sub(1);
    return std::exchange(callbacks_, {});
  }
  /// Run `f` after completion; returns false when it is already there (the caller then runs it). From now on it is one of `counted`, where that is given.
  bool on_done(std::function<void()>& f, const std::shared_ptr<UnderWay>& counted = nullptr) {
    const std::lock_guard lock(mutex_);
    if (done_.load(std::memory_order_relaxed)) return false;
    callbacks_.push_back(std::move(f));
    count(counted);
    return true;
  }
  /// Before the program has this.
  void check(std::shared_ptr<EndCheck> check) {
    const std::lock_guard lock(mutex_);
    check_ = std::move(check);
    if (done_.load(std::memory_order_relaxed)) status_ = check_->ended(status_, arrival_);
  }
  const std::shared_ptr<EndCheck>& checked_by() const noexcept { return check_; }
  /// Meaningful once done().
  const Status& status() const noexcept { return status_; }
  /// The same where the program hears of it.
  Status tell() const { return check_ != nullptr ? check_->seen() : status_; }
  /// What tell() has said, or will say if nothing is found then.
  Status outcome() const { return check_ != nullptr ? check_->outcome() : status_; }
  Arrival arrival() const noexcept { return arrival_; }

 private:
  void count(const std::shared_ptr<UnderWay>& counted) {
    if (!counted) return;
    counted->fetch_add(1);
    if (counted_) counted_->fetch_sub(1);
    counted_ = counted;
  }

  std::atomic<bool> done_{false};
  std::mutex mutex_;
  Status status_;
  Arrival arrival_;
  Callbacks callbacks_;
  std::shared_ptr<UnderWay> counted_;
  std::shared_ptr<EndCheck> check_;
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

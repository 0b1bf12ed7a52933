#pragma once
/// How to wait: spin while there are cores to spare, then yield a bounded number of times, then tell the caller to park.

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace unisono::engine {

/// Decided once from the cores this process may use and the ranks that share them.
struct WaitPolicy {
  std::uint32_t spins = 0;   ///< rounds with a pause instruction
  std::uint32_t yields = 0;  ///< rounds with sched_yield, after the spins
  friend bool operator==(const WaitPolicy&, const WaitPolicy&) = default;
};

/// `cores` that `local_ranks` may use between them (affinity masks, cgroup quota); `spin_override` < 0: none.
WaitPolicy wait_policy(int cores, int local_ranks, int spin_override) noexcept;

/// Cores this process may run on: the affinity mask, less when a cgroup quota allows less.
int usable_cores();
/// `cores`, or less when a cgroup quota allows less; at least 1.
int within_quota(int cores);

/// Who else is on the cores, as the waits of a process have found. A yield that came back only milliseconds later gave the core to a
/// stranger who does not yield: when that took a third of the time lately, waits park instead for a while, as a sleeper that is woken comes
/// first. One that came back later than a yield to nobody does, but soon, gave it to somebody who waits like us, most likely the very peer
/// that we wait for: the system has put both on one core. Then spinning keeps that peer from running, so waits yield at once for a while.
/// Thread-safety: any thread.
class Crowd {
 public:
  explicit Crowd(const Clock& clock) noexcept : clock_(clock) {}
  /// Whether strangers are on the core, so that waits park.
  bool here() const noexcept;
  /// Whether a peer seems to be on this core.
  bool core_is_shared() const noexcept;
  /// The same, once after each time that it was found.
  bool found_shared() noexcept { return found_.load(std::memory_order_relaxed) && found_.exchange(false); }
  /// This thread has moved to another core, or found that it had to do with nobody.
  void forget_shared() noexcept { shared_until_.store(0, std::memory_order_relaxed); }
  /// The long yields lately gave the core to peers that work on what we wait for.
  void were_peers() noexcept;
  /// Yield the core, and note how long that took.
  void yield() noexcept;
  /// A yield at `before` came back at `after`, in nanoseconds of the clock.
  void note(std::int64_t before, std::int64_t after) noexcept;

 private:
  std::int64_t now() const noexcept { return clock_.now().time_since_epoch().count(); }
  void note_long(std::int64_t before, std::int64_t after) noexcept;
  void note_shared(std::int64_t after) noexcept;
  const Clock& clock_;
  // Nanoseconds of the clock. Two threads that note at once may lose one: it is a measure, not a count.
  std::atomic<std::int64_t> until_{0}, window_{0}, lost_{0}, shared_until_{0}, last_shared_{0};
  std::atomic<int> to_nobody_{0};  ///< yields in a row that came back at once
  std::atomic<bool> found_{false};
};

/// One wait. Thread-safety: of one thread.
class Waiter {
 public:
  Waiter(WaitPolicy policy, Crowd& crowd) noexcept : policy_(policy), crowd_(crowd) {}
  /// Something moved: start over.
  void reset() noexcept { rounds_ = 0; }
  /// Nothing moved: pause or yield. False when it is time to park instead. A round that asked the kernel takes as long as
  /// `weight` rounds that only looked at memory.
  bool pause(std::uint32_t weight = 1) noexcept;
  std::uint32_t rounds() const noexcept { return rounds_; }

 private:
  WaitPolicy policy_;
  Crowd& crowd_;
  std::uint32_t rounds_ = 0;
};

}  // namespace unisono::engine

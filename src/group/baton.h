#pragma once
/// Whose turn it is in a group.

#include <atomic>

namespace unisono::detail {

/// The baton of a group: whoever holds it runs its operations. Thread-safety: of one thread.
class Baton {
 public:
  explicit Baton(std::atomic<bool>& flag) noexcept
      : flag_(flag), held_(!flag.exchange(true, std::memory_order_acq_rel)) {}
  ~Baton() {
    if (held_) flag_.store(false, std::memory_order_release);
  }
  Baton(const Baton&) = delete;
  Baton& operator=(const Baton&) = delete;
  bool held() const noexcept { return held_; }

 private:
  std::atomic<bool>& flag_;
  bool held_;
};

}  // namespace unisono::detail

#pragma once
/// Memory of operations that receive before they reduce: lent to those that run, so that groups which run one after another use the same.

#include <cstddef>
#include <mutex>
#include <vector>

namespace unisono::group {

/// As many pieces as operations have run at the same time. Thread-safety: any thread.
class ScratchPool {
 public:
  /// The largest piece that is there, else an empty one. Its bytes are anything.
  std::vector<std::byte> take() noexcept;
  /// An operation is over.
  void give(std::vector<std::byte> piece);
  /// A group has ended: keep the largest piece only.
  void trim() noexcept;

 private:
  std::mutex mutex_;
  std::vector<std::vector<std::byte>> pieces_;  ///< by size, the largest last
};

}  // namespace unisono::group

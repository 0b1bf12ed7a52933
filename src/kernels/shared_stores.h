#pragma once
/// How what other cores read is stored.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace unisono::kernels {

/// A line that another core has read lies in its cache, too, and whoever writes to it again waits until it is gone from there. Where both have a cache in
/// common that takes little; between cores that have none, several times what copying takes. Stores around the caches need not wait, and then the reader has the line from
/// memory. So each rank finds out which is faster where it writes, and again and again, as the system moves it to other cores (docs/design/0003-speed.md).
/// Thread-safety: of one thread at a time.
class SharedStores {
 public:
  /// Pieces of `copy` and `reduce` take different times.
  enum class Kind : std::uint8_t { copy, reduce };
  /// Shorter pieces are stored through the caches, as ever.
  static constexpr std::size_t kLeast = 4 << 10;

  /// To an area of so many bytes, which is gone around.
  explicit SharedStores(std::uint64_t area) noexcept : turn_(area), period_(kFirstPeriod * area) {}

  /// `work`(around) stores `bytes`.
  template <class Work>
  void store(Kind kind, std::size_t bytes, Work&& work) {
    if (bytes < kLeast) return work(false);
    if (++turn_of_clock_ % kTimed != 0 && !learning(kind)) {
      work(around_);
      return count(bytes);
    }
    const bool around = next(kind);
    const auto begin = std::chrono::steady_clock::now();
    work(around);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    note(kind, around, bytes, took.count());
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    store(Kind::copy, bytes, [&](bool around) { kernels::copy(to, from, bytes, around); });
  }

  /// Whether what is stored goes around the caches for now, as far as it is long enough.
  bool around() const noexcept { return around_; }

  /// Whether the next piece goes around the caches.
  bool next(Kind kind) noexcept;
  /// A piece of `bytes` took so many nanoseconds.
  void note(Kind kind, bool around, std::size_t bytes, double nanoseconds) noexcept;

 private:
  static constexpr std::size_t kRecent = 7;
  /// Of so many pieces one is timed. Odd, and so are the numbers in next(): where kinds take turns, each gets its own.
  static constexpr std::uint32_t kTimed = 5;
  static constexpr std::uint64_t kFirstPeriod = 16, kLongestPeriod = 512;  ///< in turns
  /// Nanoseconds a byte that a reader loses: it has 10 to 17 GB/s from memory, and 40 from a cache that it has in common with the
  /// one that wrote. Writers whose cores have none lose 0.13 to 0.7, others 0.02 at most.
  static constexpr double kReadersLoss = 0.08;

  struct Times {
    std::array<float, kRecent> recent{};
    std::uint32_t count = 0;
    void add(double time) noexcept { recent[count++ % kRecent] = static_cast<float>(time); }
  };
  /// It could be decided which way is faster, if only a few more were timed.
  bool learning(Kind kind) const noexcept {
    const auto& [through, around] = times_[static_cast<std::size_t>(kind)];
    return !around_ && since_ > turn_ && std::min(through.count, around.count) < kRecent;
  }
  void count(std::size_t bytes) noexcept;
  void decide() noexcept;

  std::uint64_t turn_;
  std::array<std::array<Times, 2>, 2> times_;  ///< by kind, through the caches and around them; nanoseconds a byte
  bool around_ = false;
  std::uint32_t pieces_ = 0, turn_of_clock_ = 0;
  std::uint64_t since_ = 0;  ///< bytes since around_ has changed
  std::uint64_t period_;     ///< for so many bytes it goes around, until the caches are tried again
};

}  // namespace unisono::kernels

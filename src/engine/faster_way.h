#pragma once
/// Which of two ways to do the same work is faster here, found while it is done.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/median.h"

namespace unisono::engine {

/// Both ways are tried by turns at first; then the one whose recent pieces took less by the median, and the other once in a while, the more rarely the
/// longer it takes: which one it is depends on the machine's memory, and on who else uses it. Thread-safety: of one thread at a time.
class FasterWay {
 public:
  /// Shorter pieces are not worth a clock.
  static constexpr std::size_t kLeast = 64 << 10;

  /// `work`(way) does a piece of so many bytes, at least kLeast.
  template <class Work>
  void take(std::size_t bytes, Work&& work) {
    const std::size_t way = next();
    const auto begin = std::chrono::steady_clock::now();
    work(way);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    note(way, took.count() / static_cast<double>(bytes));
  }
  /// The way, 0 or 1, that the next piece goes.
  std::size_t next() noexcept {
    const std::size_t known = std::min(times_[0].count, times_[1].count);
    turn_++;
    if (known < kRecent) return turn_ % 2;
    const std::array<double, 2> medians{times_[0].typical(), times_[1].typical()};
    const std::size_t faster = medians[1] < medians[0] ? 1 : 0;
    if (turn_ < rest(medians[1 - faster] / medians[faster])) return faster;
    turn_ = 0;
    return 1 - faster;
  }
  /// A piece that went `way` took so long, in whatever unit.
  void note(std::size_t way, double time) noexcept { times_[way].add(time); }

 private:
  static constexpr std::size_t kRecent = 7;
  /// Tries make all of it take longer by this part at most, unless a way takes more than five times as long: they come after at least and at most so many pieces.
  static constexpr double kPart = 1.0 / 256, kLeastRest = 64, kMostRest = 1024;

  /// Pieces from one try to the next of a way that takes so many times as long.
  static double rest(double longer) noexcept { return std::clamp((longer - 1) / kPart, kLeastRest, kMostRest); }

  struct Times {
    std::array<double, kRecent> recent{};
    std::size_t count = 0;

    void add(double time) noexcept { recent[count++ % kRecent] = time; }
    /// A piece during which somebody else had the core says nothing, so not the mean.
    double typical() const noexcept { return median(recent); }
  };
  std::array<Times, 2> times_;
  std::uint32_t turn_ = 0;  ///< pieces since the last try of the slower way
};

}  // namespace unisono::engine

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
/// longer it takes: which one it is depends on the machine's memory, and on who else uses it. A turn, and a try, is several pieces: the first ones pay for what the other
/// way has left in the caches and on its way to memory, and do not count. Single pieces of either way, amid those of the other, took the same time, where all of one way take 1.25 times as long
/// as all of the other. Thread-safety: of one thread at a time.
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
    note(took.count() / static_cast<double>(bytes));
  }
  /// The way, 0 or 1, that the next piece goes.
  std::size_t next() noexcept {
    if (left_ == 0) begin_run();
    left_--;
    return way_;
  }
  /// The piece that next() was asked for took so long, in whatever unit.
  void note(double time) noexcept {
    if (settling_ > 0)
      settling_--;
    else
      times_[way_].add(time);
  }

 private:
  static constexpr std::size_t kRecent = 7;
  static constexpr std::uint32_t kSettling = 3,
                                 kRun = kSettling + 5;  ///< pieces of a turn or a try that do not count, and all
  /// Tries make all of it take longer by this part at most, unless a way takes more than five times as long: they come after at least and at most so many pieces.
  static constexpr double kPart = 1.0 / 256, kLeastRest = 64 * kRun, kMostRest = 1024 * kRun;

  /// Pieces from one try to the next of a way that takes so many times as long.
  static std::uint32_t rest(double longer) noexcept {
    return static_cast<std::uint32_t>(std::clamp((longer - 1) / kPart * kRun, kLeastRest, kMostRest));
  }
  void begin_run() noexcept {
    const std::size_t before = way_;
    if (std::min(times_[0].count, times_[1].count) < kRecent) {
      way_ = 1 - way_;
      left_ = kRun;
    } else {
      const std::array<double, 2> medians{times_[0].typical(), times_[1].typical()};
      const std::size_t faster = medians[1] < medians[0] ? 1 : 0;
      tries_ = !tries_;
      way_ = tries_ ? 1 - faster : faster;
      left_ = tries_ ? kRun : rest(medians[1 - faster] / medians[faster]);
    }
    if (way_ != before) settling_ = kSettling;
  }

  struct Times {
    std::array<double, kRecent> recent{};
    std::size_t count = 0;

    void add(double time) noexcept { recent[count++ % kRecent] = time; }
    /// A piece during which somebody else had the core says nothing, so not the mean.
    double typical() const noexcept { return median(recent); }
  };
  std::array<Times, 2> times_;
  std::size_t way_ = 1;
  bool tries_ = true;                      ///< the way is the slower one, as far as is known
  std::uint32_t left_ = 0, settling_ = 0;  ///< pieces of this run, and of those the first ones that do not count
};

}  // namespace unisono::engine

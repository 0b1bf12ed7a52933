#pragma once
/// Which of two algorithms is faster just now, found out by running them.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace unisono::group {

/// Two cores may share a cache, or sit on different chips; virtual ones move from the one to the other while a job runs, and which way of moving
/// data is faster changes with that, by a factor of 2 to 5 either way (docs/design/0003-speed.md). So the ways are tried now and then, and the one that
/// was faster of late is used. One rank keeps the record and tells the others, one call ahead. Thread-safety: one thread at a time.
class Contest {
 public:
  enum class Side : std::uint8_t { usual, rival };
  /// Up to so many runs of the usual side, at least 4, are a trial, fewer in the first ones: stages are stored to in the way that suits these cores only after a while (kernels::SharedStores), and a
  /// side that were given up before would never show what it can.
  explicit Contest(std::uint32_t usual_trial = kShortest) noexcept : usual_trial_(std::max(usual_trial, kShortest)) {}
  /// Who runs next.
  Side choose() noexcept;
  /// The same for whoever has to say it one call ahead: who runs now, as next() was in the last call, and who in the next one. timed() is about this one.
  Side now() noexcept;
  Side next() const noexcept { return ahead_ ? ahead_->side : Side::usual; }
  /// Whether that run is to be timed: each as long as something may have changed, and in trials, else one of 32. Clocks that are read while ranks wait for each other
  /// cost a call of 64 KiB up to a twentieth, and one of 16 KiB a seventh.
  bool timed() const noexcept { return timed_; }
  /// How long it took, from when all ranks were there; and, where ranks take turns on the cores, the time from the end of the last run to that of this one (else 0), which is then to be said of all runs, timed or not. There a rank is
  /// soon through with what makes all others wait, so the latter counts, unless it is much the same for both sides: then most of it is not of their making. Two runs often end in one turn, and the next two in another: so it counts by twos. The first run after the other side's, and the very first, say nothing: they touch memory for the first time, or find it
  /// in the caches where the other side has left it, and are up to 4 times as slow or as fast as the next.
  void record(Side side, Duration took, Duration since_last = Duration{0}) noexcept;

 private:
  struct Times {
    Duration took{}, between{};  ///< from when all were there; from end to end, 0 where cores are not few
  };
  /// What runs take of late: the middle one of a few, but at least two. Who is disturbed is slower; but a rank that is through with its part before another begins makes a run look short, too.
  struct Record {
    std::array<Duration, 9> took{}, between{};
    std::uint32_t runs = 0;
    Times typical{Duration::max(), {}};
    bool full() const noexcept { return runs >= took.size(); }
    bool by_twos() const noexcept { return between[0] > Duration{0}; }
    void add(const Times& run) noexcept;
  };
  Record& of(Side side) noexcept { return side == Side::usual ? usual_ : rival_; }
  struct Sides {
    Duration usual, rival;
  };
  Sides times() const noexcept;
  Side favourite() const noexcept;
  void put_off() noexcept;
  void switch_to(const Record& side) noexcept;
  void watch(const Times& run, const Record& favourite) noexcept;

  static constexpr std::uint32_t kShortest = 4;                  ///< runs of a trial; one or two of them do not count
  static constexpr std::uint32_t kRivalTrial = 10;               ///< the longest one of the rival: a full record
  static constexpr std::uint32_t kShare = 8;                     ///< but at most one run for so many of the faster side
  static constexpr std::uint32_t kTimed = 32;                    ///< of so many runs one is timed,
  static constexpr std::uint32_t kWatched = 8;                   ///< but so many after one that took long
  static constexpr std::uint32_t kSoonest = 32, kLatest = 2048;  ///< calls between trials of the slower side
  struct Ahead {
    Side side;
    bool timed;
  };
  Record usual_, rival_;
  std::optional<Ahead> ahead_;
  std::uint32_t usual_trial_;
  std::optional<Side> last_;
  bool timed_ = true, both_known_ = false;
  Times earlier_{};   ///< of the last run, if that was of the same side
  Times expected_{};  ///< of the favourite; 0: not known yet
  std::uint32_t calls_ = 0, retry_ = kSoonest, next_trial_ = 0, watched_until_ = 0;
  std::uint32_t alarm_rest_ = kSoonest, alarm_from_ = 0;  ///< calls between alarms; the first that may raise one
  std::uint32_t switched_ = 0, retry_before_ = 0;         ///< the call of the last switch, and what retry_ was then
};

}  // namespace unisono::group

#pragma once
/// Whether a program is faster with something than without it, found out by doing both.

#include <array>
#include <cstdint>

#include "base/clock.h"

namespace unisono::group {

/// Some ways of doing a call make it shorter and what the program does behind it longer: what another core has written has to come from that core's cache. So what counts is a round, from the beginning of
/// a call to that of the next one of its kind, and all that lies between. Rounds differ, so several are timed at a time, with it and without it by turns, and it wins only where it is clearly
/// ahead. Thread-safety: one thread at a time.
class RoundTrial {
 public:
  /// Whether the call that begins now is to be done with it. The clock is read in trials alone.
  bool choose(const Clock& clock) noexcept;
  /// A call of that kind begins which is done in another way: the rounds that are being timed say nothing.
  void interrupt() noexcept { round_ = 0; }

  static constexpr std::uint32_t kFirst = 256;                     ///< calls before the first trial
  static constexpr std::uint32_t kSoonest = 1024, kLatest = 4096;  ///< from one trial to the next
  static constexpr std::uint32_t
      kRounds = 8,
      kTurns = 5;  ///< each way has so many turns of so many rounds; the first of a turn is not timed

 private:
  void end_turn(Duration took) noexcept;

  std::uint32_t calls_until_trial_ = kFirst, pause_ = kSoonest / 2;
  std::uint32_t turn_ = 0, round_ = 0;
  TimePoint began_{};
  std::array<std::array<Duration, kTurns>, 2> took_{};  ///< without it, with it
  bool wins_ = false;
};

}  // namespace unisono::group

#include "group/round_trial.h"

#include <algorithm>

#include "base/median.h"

namespace unisono::group {

namespace {
/// It has to be ahead by more than such a part.
constexpr int kMargin = 64;
}  // namespace

bool RoundTrial::choose(const Clock& clock) noexcept {
  if (calls_until_trial_ > 0) {
    calls_until_trial_--;
    return wins_;
  }
  if (round_ == kRounds) {
    end_turn(clock.now() - began_);
    if (calls_until_trial_ > 0) return choose(clock);
  }
  if (round_ == 1) began_ = clock.now();
  round_++;
  return turn_ % 2 == 1;
}

/// With it and without it take turns, so that what changes slowly changes both.
void RoundTrial::end_turn(Duration took) noexcept {
  took_[turn_ % 2][turn_ / 2] = took;
  round_ = 0;
  if (++turn_ < 2 * kTurns) return;
  turn_ = 0;
  const Duration without = median(took_[0]), with = median(took_[1]);
  const bool won = wins_;
  wins_ = with < without - without / kMargin;
  pause_ = wins_ == won ? std::min(2 * pause_, kLatest) : kSoonest;
  calls_until_trial_ = pause_;
}

}  // namespace unisono::group

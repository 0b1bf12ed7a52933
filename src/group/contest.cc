#include "group/contest.h"

#include <algorithm>
#include <utility>

namespace unisono::group {

namespace {
constexpr std::uint32_t kFirst = 2;  // runs of each that count before anything is concluded

/// By so much that something must have changed.
bool much_longer(Duration took, Duration expected) noexcept { return took > expected + expected / 2; }
}  // namespace

/// Of two the longer one is typical.
void Contest::Record::add(Duration took) noexcept {
  last[runs++ % last.size()] = took;
  auto sorted = last;
  const auto known = std::min<std::ptrdiff_t>(runs, static_cast<std::ptrdiff_t>(sorted.size()));
  std::nth_element(sorted.begin(), sorted.begin() + known / 2, sorted.begin() + known);
  typical = sorted[static_cast<std::size_t>(known / 2)];
}

Contest::Side Contest::choose() noexcept {
  calls_++;
  timed_ = true;
  if (!both_known_) {
    if (usual_.runs < kFirst) return Side::usual;
    if (rival_.runs < kFirst) return Side::rival;
    both_known_ = true;
  }
  const Side best = favourite(), other = best == Side::usual ? Side::rival : Side::usual;
  if (next_trial_ == 0) next_trial_ = calls_ + retry_;
  if (calls_ < next_trial_) {
    timed_ = !of(best).full() || retry_ <= 2 * kSoonest || calls_ < watched_until_ || calls_ % kTimed == 0;
    return best;
  }
  if (calls_ == next_trial_) of(other) = {};  // what it took long ago says nothing
  const std::uint32_t runs = other == Side::usual ? std::clamp(retry_ / kShare, kShortest, usual_trial_) : kShortest;
  if (calls_ >= next_trial_ + runs - 1) {  // the last run of this trial; a side that loses is asked less and less often
    retry_ = std::min(retry_ * 2, kLatest);
    next_trial_ = 0;
  }
  return other;
}

void Contest::record(Side side, Duration took) noexcept {
  if (std::exchange(last_, side) != side) return;
  const Side before = favourite();
  of(side).add(took);
  if (!both_known_) return;
  const Side now = favourite();
  if (now != before) {  // so soon again the other side will not have changed
    expected_ = of(now).typical;
    retry_ = kSoonest;
    next_trial_ = calls_ + retry_;
  } else if (side == now) {
    watch(took, of(now));
  }
}

/// The favourite has run. If it takes longer than it did, one run may have been disturbed; several mean that something has changed: look at the other soon.
void Contest::watch(Duration took, const Record& favourite) noexcept {
  const Duration typical = favourite.typical;
  if (expected_ == Duration{}) expected_ = typical;
  if (much_longer(took, expected_)) watched_until_ = std::max(watched_until_, calls_ + kWatched);
  if (favourite.full() && much_longer(typical, expected_)) {
    expected_ = typical;
    retry_ = kSoonest;
    if (next_trial_ > calls_ + 1) next_trial_ = calls_ + 1;
  }
  expected_ = std::min(expected_, typical);
}

}  // namespace unisono::group

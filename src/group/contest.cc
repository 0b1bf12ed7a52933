#include "group/contest.h"

#include <algorithm>
#include <utility>

namespace unisono::group {

namespace {
constexpr std::uint32_t kFirst = 2;  // runs of each that count before anything is concluded
}  // namespace

Duration Contest::Record::best() const noexcept {
  const auto end = last.begin() + std::min<std::uint32_t>(runs, static_cast<std::uint32_t>(last.size()));
  return runs == 0 ? Duration::max() : *std::min_element(last.begin(), end);
}

Contest::Side Contest::choose() noexcept {
  calls_++;
  timed_ = true;
  if (usual_.runs < kFirst) return Side::usual;
  if (rival_.runs < kFirst) return Side::rival;
  const Side best = favourite(), other = best == Side::usual ? Side::rival : Side::usual;
  if (next_trial_ == 0) next_trial_ = calls_ + retry_;
  if (calls_ < next_trial_) {
    const Record& known = best == Side::usual ? usual_ : rival_;
    timed_ = known.runs < known.last.size() || retry_ <= 2 * kSoonest || calls_ % kTimed == 0;
    return best;
  }
  const std::uint32_t runs = other == Side::usual ? usual_trial_ : kShortest;
  if (calls_ >= next_trial_ + runs - 1) {  // the last run of this trial; a side that loses is asked less and less often
    retry_ = std::min(retry_ * 2, kLatest);
    next_trial_ = 0;
  }
  return other;
}

void Contest::record(Side side, Duration took) noexcept {
  if (std::exchange(last_, side) != side) return;
  Record& mine = side == Side::usual ? usual_ : rival_;
  const Side before = favourite();
  const bool slower = mine.runs >= mine.last.size() && took > mine.best() + mine.best() / 2;
  mine.add(took);
  const bool changed = usual_.runs >= kFirst && rival_.runs >= kFirst && favourite() != before;
  // Something has changed if the favourite is no longer what it was: look at the other soon.
  if (changed || (slower && side == before)) {
    retry_ = kSoonest;
    if (next_trial_ > calls_ + 1) next_trial_ = calls_ + 1;
  }
}

}  // namespace unisono::group

#include "group/contest.h"

#include <algorithm>
#include <utility>

#include "base/median.h"

namespace unisono::group {

namespace {
constexpr std::uint32_t kFirst = 3;  // runs of each that count before anything is concluded

/// By so much that something must have changed.
bool much_longer(Duration took, Duration expected) noexcept { return took > expected + expected / 2; }
}  // namespace

void Contest::Record::add(Duration took, Duration between) noexcept {
  last[runs % last.size()] = took;
  last_between[runs % last.size()] = between;
  runs++;
  const std::size_t known = std::min<std::size_t>(runs, last.size());
  typical = quantile_of_first(last, known, 2);
  typical_between = between == Duration{0} ? Duration{0} : quantile_of_first(last_between, known, 2);
}

Contest::Times Contest::times() const noexcept {
  const Duration usual = usual_.typical_between, rival = rival_.typical_between;
  const bool known = std::min(usual, rival) > Duration{0};
  if (known && std::max(usual, rival) - std::min(usual, rival) > std::max(usual, rival) / 8) return {usual, rival};
  return {usual_.typical, rival_.typical};
}

Contest::Side Contest::favourite() const noexcept {
  const Times t = times();
  return t.rival < t.usual ? Side::rival : Side::usual;
}

/// A trial is over. The side that loses is asked less and less often, and soon so if it is far behind: a hundred calls are all that many a program makes.
void Contest::put_off() noexcept {
  const auto [usual, rival] = times();
  const bool far = usual_.runs > 0 && rival_.runs > 0 &&
                   std::max(usual, rival) - std::min(usual, rival) > std::min(usual, rival) / 4;
  retry_ = std::min(retry_ * (far ? 4 : 2), kLatest);
  next_trial_ = 0;
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
  const std::uint32_t longest = other == Side::usual ? usual_trial_ : std::min(usual_trial_, kRivalTrial);
  const std::uint32_t runs = std::clamp(retry_ / kShare, kShortest, longest);
  if (calls_ >= next_trial_ + runs - 1) put_off();  // the last run of this trial
  return other;
}

Contest::Side Contest::now() noexcept {
  const auto ask = [&] { return Ahead{choose(), timed_}; };
  const Ahead now = ahead_ ? *ahead_ : ask();
  ahead_ = ask();
  timed_ = now.timed;
  return now.side;
}

void Contest::record(Side side, Duration took, Duration since_last) noexcept {
  if (std::exchange(last_, side) != side) return;
  const Side before = favourite();
  of(side).add(took, since_last);
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

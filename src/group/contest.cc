#include "group/contest.h"

#include <algorithm>
#include <utility>

#include "base/median.h"

namespace unisono::group {

namespace {
// Runs that count before anything is concluded: of each side at first; of the usual one where ranks take turns, as it is so long until they have found theirs; in a trial.
constexpr std::uint32_t kFirst = 3, kSettled = 12, kTelling = 2;

/// By so much that something must have changed.
bool much_longer(Duration took, Duration expected) noexcept { return took > expected + expected / 2; }
}  // namespace

void Contest::Record::add(const Times& run) noexcept {
  took[runs % took.size()] = run.took;
  between[runs % between.size()] = run.between;
  if (++runs < kTelling) return;
  const std::size_t known = std::min<std::size_t>(runs, took.size());
  typical = {quantile_of_first(took, known, 2), quantile_of_first(between, known, 2)};
}

Contest::Sides Contest::times() const noexcept {
  const Duration usual = usual_.typical.between, rival = rival_.typical.between;
  const bool known = std::min(usual, rival) > Duration{0};
  if (known && std::max(usual, rival) - std::min(usual, rival) > std::max(usual, rival) / 8) return {usual, rival};
  return {usual_.typical.took, rival_.typical.took};
}

Contest::Side Contest::favourite() const noexcept {
  const Sides t = times();
  return t.rival < t.usual ? Side::rival : Side::usual;
}

/// A trial is over. The side that loses is asked less and less often, the sooner so the farther behind it is: a hundred calls are all that many a program makes.
void Contest::put_off() noexcept {
  const auto [usual, rival] = times();
  const Duration less = std::min(usual, rival), more = std::max(usual, rival);
  const bool known = more < Duration::max();
  const std::uint32_t rarer = known && more > 2 * less ? 16 : known && more > less + less / 4 ? 4 : 2;
  retry_ = std::min(retry_ * rarer, kLatest);
  next_trial_ = 0;
}

Contest::Side Contest::choose() noexcept {
  calls_++;
  timed_ = true;
  if (!both_known_) {
    if (usual_.runs < (usual_.by_twos() ? kSettled : kFirst)) return Side::usual;
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
  const bool first = std::exchange(last_, side) != side, by_twos = since_last > Duration{0};
  const Times earlier = std::exchange(earlier_, first ? Times{} : Times{took, since_last});
  if (first || !timed_ || (by_twos && earlier.between == Duration{0})) return;
  const Times run = by_twos ? Times{(earlier.took + took) / 2, (earlier.between + since_last) / 2} : Times{took, {}};
  const Side before = favourite();
  of(side).add(run);
  if (!both_known_) return;
  const Side now = favourite();
  if (now != before)
    switch_to(of(now));
  else if (side == now)
    watch(run, of(now));
}

/// So soon again the other side will not have changed; unless it had been there before, and that was a mistake.
void Contest::switch_to(const Record& side) noexcept {
  expected_ = side.typical;
  if (calls_ - switched_ < kSoonest && switched_ != 0) {
    retry_ = std::min(2 * retry_before_, kLatest);
  } else {
    retry_before_ = retry_;
    retry_ = alarm_rest_ = kSoonest;
  }
  switched_ = calls_;
  next_trial_ = calls_ + retry_;
}

/// The favourite has run. If it takes longer than it did, one run may have been disturbed; several mean that something has changed: look at the other soon. But where
/// that has changed nothing, what it takes changes by itself, so the next such alarm has to wait longer.
void Contest::watch(const Times& run, const Record& favourite) noexcept {
  const Times& typical = favourite.typical;
  if (typical.took == Duration::max()) return;
  if (expected_.took == Duration{}) expected_ = typical;
  const auto longer = [&](const Times& t) {
    return much_longer(t.took, expected_.took) &&
           (t.between == Duration{0} || much_longer(t.between, expected_.between));
  };
  if (longer(run)) watched_until_ = std::max(watched_until_, calls_ + kWatched);
  if (favourite.full() && longer(typical) && calls_ >= alarm_from_) {
    expected_ = typical;
    retry_ = alarm_rest_;
    alarm_rest_ = std::min(2 * alarm_rest_, kLatest);
    alarm_from_ = calls_ + alarm_rest_;
    if (next_trial_ > calls_ + 1) next_trial_ = calls_ + 1;
  }
  expected_ = {std::min(expected_.took, typical.took), std::min(expected_.between, typical.between)};
}

}  // namespace unisono::group

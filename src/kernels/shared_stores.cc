#include "kernels/shared_stores.h"

#include <algorithm>

#include "base/median.h"

namespace unisono::kernels {

bool SharedStores::next(Kind kind) noexcept {
  if (around_) return true;
  if (since_ <= turn_) return false;  // memory that is touched for the first time
  const bool known = times_[static_cast<std::size_t>(kind)][1].count >= kRecent;
  return ++pieces_ % (known ? 101 : 3) == 0;
}

void SharedStores::note(Kind kind, bool around, std::size_t bytes, double nanoseconds) noexcept {
  // What is stored through the caches after a while around them goes to lines that lie in none, which takes another time: only from the second turn on does
  // it tell. Around them it is always the same.
  if (around || since_ > turn_)
    times_[static_cast<std::size_t>(kind)][around ? 1 : 0].add(nanoseconds / static_cast<double>(bytes));
  if (!around_ && pieces_ % 4 == 0) decide();
  count(bytes);
}

void SharedStores::count(std::size_t bytes) noexcept {
  since_ += bytes;
  if (!around_ || since_ <= period_) return;
  around_ = false;  // try the caches again
  since_ = 0;
  for (auto& times : times_) times[0].count = 0;
}

void SharedStores::decide() noexcept {
  double gain = 0;
  bool known = false;
  for (const auto& [through, around] : times_) {
    if (std::min(through.count, around.count) < kRecent) {
      // What is done as well is waited for, unless it is done no more.
      if (through.count > 0 && since_ < 8 * turn_) return;
      continue;
    }
    // Of a piece during which somebody else had the core the time says nothing, so not the mean.
    gain += median(through.recent) - median(around.recent) - kReadersLoss;
    known = true;
  }
  if (!known) return;
  if (gain <= 0) {
    period_ = kFirstPeriod * turn_;
    return;
  }
  period_ = std::min(2 * period_, kLongestPeriod * turn_);
  around_ = true;
  since_ = 0;
}

}  // namespace unisono::kernels

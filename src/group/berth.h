#pragma once
/// Where the progress thread stays while all processors are busy.

#include <sched.h>

#include <atomic>
#include <vector>

#include "base/clock.h"
#include "group/crowded.h"

namespace unisono::group {

/// A thread that arrivals wake begins where the kernel took them in, and where all processors are busy it stays there: so the progress threads of two ranks come to share one
/// processor, whose rank then pays for both, and all wait for that rank in the end. So while there are more threads than processors it stays on the processor
/// on which its operations are begun; else anywhere.
class Berth {
 public:
  /// A thread of the application begins an operation that the progress thread sees to. Any thread but that one, whose callbacks begin some, too.
  void begun_here() noexcept { wanted_.store(::sched_getcpu(), std::memory_order_relaxed); }
  /// The progress thread, which alone calls this, is awake. It looks at the processors (`is_crowded`) not more often than every 50 ms.
  void keep(TimePoint now, bool (*is_crowded)() = crowded);

 private:
  static constexpr Duration kBetweenLooks = std::chrono::milliseconds(50);

  std::atomic<int> wanted_{-1};
  TimePoint next_{};
  int kept_ = -1;            ///< the processor that it stays on; -1: anywhere
  std::vector<int> usable_;  ///< where it may run else
};

}  // namespace unisono::group

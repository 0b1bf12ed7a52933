#pragma once
/// Where ranks are more than processors: which of them a rank comes back to when it waits.

#include <sched.h>

#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/mates.h"

namespace unisono::group {

/// The processor of the rank at `place` among the ranks of a host, which may run on `processors_of` each: as many ranks on each processor, neighbours
/// together, because most algorithms' neighbours have the most to say to each other. None where there are processors for all, or not
/// all ranks may run on the same ones: somebody has placed them.
std::optional<int> seat_of(std::size_t place, std::span<const std::vector<int>> processors_of);

/// The others who have the same seat, by place; `second_cache`: bytes, of each processor.
engine::Mates mates_of(std::size_t place, std::span<const std::vector<int>> processors_of, std::size_t second_cache);

/// Where ranks take turns, the system leaves them for as long as 100 ms as they are: three on one processor and one on the other,
/// or those on one that wait for each other; whatever is exchanged then takes up to twice as long. So a rank that waits elsewhere goes back. The thread that waits moves; where it may run
/// stays as it was. Thread-safety: any thread.
class Seat {
 public:
  /// From now on; none: everywhere.
  void take(std::optional<int> processor) noexcept { processor_.store(processor.value_or(-1)); }
  /// The calling thread waits: it goes back if it is not there. Not more often than every millisecond. Whether it has moved.
  bool keep(const Clock& clock) noexcept {
    const int processor = processor_.load(std::memory_order_relaxed);
    return processor >= 0 && ::sched_getcpu() != processor && go_back(processor, clock.now());
  }

 private:
  static constexpr Duration kPause = std::chrono::milliseconds(1);
  bool go_back(int processor, TimePoint now) noexcept;

  std::atomic<int> processor_{-1};
  std::atomic<TimePoint> next_{TimePoint{}};
};

}  // namespace unisono::group

#include "group/berth.h"

#include <algorithm>
#include <array>

#include "base/host_topology.h"

namespace unisono::group {

void Berth::keep(TimePoint now, bool (*is_crowded)()) {
  if (now < next_) return;
  next_ = saturating_add(now, kBetweenLooks);
  const int wanted = is_crowded() ? wanted_.load(std::memory_order_relaxed) : -1;
  if (wanted == kept_) return;
  std::vector<int> usable = usable_cpus();
  if (kept_ < 0) {
    usable_ = std::move(usable);
  } else if (usable != std::vector{kept_}) {
    kept_ = -1;  // somebody has placed this thread meanwhile, and knows better
    return;
  }
  if (wanted < 0) {
    if (run_on_cpus(usable_).ok()) kept_ = -1;
  } else if (std::ranges::binary_search(usable_, wanted) && run_on_cpus(std::array{wanted}).ok()) {
    kept_ = wanted;
  }
}

}  // namespace unisono::group

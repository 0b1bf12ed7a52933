#include "group/apart.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <vector>

#include "base/host_topology.h"
#include "group/crowded.h"

namespace unisono::group {

std::optional<int> way_out(int here, const PeerId& self, std::span<const engine::Messenger::Neighbour> neighbours,
                           std::span<const int> usable, std::uint32_t n) {
  const auto waits = [&](int cpu) { return [cpu](const auto& peer) { return peer.processor == cpu; }; };
  const auto before = std::count_if(neighbours.begin(), neighbours.end(),
                                    [&](const auto& peer) { return peer.processor == here && peer.id < self; });
  if (before == 0) return std::nullopt;
  std::vector<int> free;
  for (const int cpu : usable)
    if (cpu != here && std::none_of(neighbours.begin(), neighbours.end(), waits(cpu))) free.push_back(cpu);
  if (free.empty()) return std::nullopt;
  const auto next = std::upper_bound(free.begin(), free.end(), here) - free.begin();
  return free[(static_cast<std::size_t>(next) + static_cast<std::size_t>(before) - 1 + n) % free.size()];
}

Apart::Apart(engine::Messenger& messenger, std::shared_ptr<transport::SharedSegment> segment, const PeerId& self,
             const Clock& clock, const Logger& log)
    : messenger_(messenger), segment_(std::move(segment)), self_(self), clock_(clock), log_(log) {}

void Apart::wait_here() noexcept {
  if (segment_ == nullptr) return;
  const int here = ::sched_getcpu();
  if (said_.load(std::memory_order_relaxed) == here) return;
  said_.store(here, std::memory_order_relaxed);
  segment_->waits_on(here);
}

bool Apart::move() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (segment_ == nullptr || !lock.owns_lock()) return false;
  const TimePoint now = clock_.now();
  if (now < next_) return false;
  next_ = saturating_add(now, kBetweenQuestions);
  // With more threads than processors the free one that we know of is most likely somebody's who computes: two ranks that take turns are faster than one that shares
  // its processor with such a one.
  if (crowded()) return false;
  const int here = ::sched_getcpu();
  const auto there = way_out(here, self_, messenger_.neighbours(), usable_cpus(), moves_);
  if (!there || !move_to_cpu(*there)) return false;
  // Where somebody always comes back to, as he is bound there, or the system insists, moving helps nobody.
  next_ = saturating_add(now, pause_);
  pause_ = std::min<Duration>(2 * pause_, std::chrono::seconds(10));
  moves_++;
  wait_here();
  log_.debug(fmt::format("this rank and another waited on processor {}: it has moved to {}", here, *there));
  return true;
}

}  // namespace unisono::group

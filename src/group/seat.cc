#include "group/seat.h"

#include <algorithm>

#include "base/host_topology.h"

namespace unisono::group {

std::optional<int> seat_of(std::size_t place, std::span<const std::vector<int>> processors_of) {
  const std::size_t ranks = processors_of.size();
  if (place >= ranks) return std::nullopt;
  const std::vector<int>& processors = processors_of[place];
  if (processors.empty() || ranks <= processors.size()) return std::nullopt;
  const auto alike = [&](const std::vector<int>& other) { return other == processors; };
  if (!std::all_of(processors_of.begin(), processors_of.end(), alike)) return std::nullopt;
  return processors[place * processors.size() / ranks];
}

engine::Mates mates_of(std::size_t place, std::span<const std::vector<int>> processors_of, std::size_t second_cache) {
  engine::Mates found;
  const auto mine = seat_of(place, processors_of);
  if (!mine) return found;
  // Who has the same seat is in a row.
  const auto here = [&](std::size_t other) { return seat_of(other, processors_of) == mine; };
  std::size_t first = place, last = place;
  while (first > 0 && here(first - 1)) first--;
  while (last + 1 < processors_of.size() && here(last + 1)) last++;
  found.second_cache = static_cast<std::int64_t>(second_cache);
  found.count = static_cast<int>(last - first + 1);
  if (first < place) found.before = static_cast<int>(place) - 1;
  if (last > place) found.after = static_cast<int>(place) + 1;
  return found;
}

bool Seat::go_back(int processor, TimePoint now) noexcept {
  TimePoint next = next_.load(std::memory_order_relaxed);
  // Of several threads that wait, one asks in a millisecond.
  if (now < next || !next_.compare_exchange_strong(next, saturating_add(now, kPause))) return false;
  return move_to_cpu(processor);
}

}  // namespace unisono::group

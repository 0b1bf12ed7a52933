#include "simulate/fair.h"

#include <algorithm>

namespace unisono::simulate {

/// Brings the link's clock up to `now`.
void FairLinks::read(Link& link, double now) {
  if (!link.served.empty()) link.clock += (now - link.read_at) / static_cast<double>(link.served.size());
  link.read_at = now;
}

FairLinks::Due FairLinks::due(Link& link, double now) {
  const double left = std::max(0.0, link.served.top().end - link.clock);
  return {now + left * static_cast<double>(link.served.size()), ++link.version};
}

std::pair<bool, FairLinks::Due> FairLinks::enter(std::uint32_t index, const Message& message, double now) {
  Link& link = links_[index];
  read(link, now);
  const auto [place, idle] = link.waiting.try_emplace(message.connection);
  if (idle)
    link.served.push({link.clock + message.work, message});
  else
    place->second.push_back(message);
  return {idle, due(link, now)};
}

FairLinks::Departure FairLinks::depart(std::uint32_t index, double now) {
  Link& link = links_[index];
  read(link, now);
  const Served first = link.served.top();
  link.served.pop();
  link.clock = first.end;  // what it is but for rounding
  Departure departure{first.message.task, std::nullopt, std::nullopt};
  const auto behind = link.waiting.find(first.message.connection);
  if (behind->second.empty()) {
    link.waiting.erase(behind);
  } else {
    const Message next = behind->second.front();
    behind->second.pop_front();
    link.served.push({link.clock + next.work, next});
    departure.begun = next.task;
  }
  if (!link.served.empty()) departure.due = due(link, now);
  return departure;
}

}  // namespace unisono::simulate

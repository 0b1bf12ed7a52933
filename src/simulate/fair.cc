#include "simulate/fair.h"

#include <algorithm>

namespace unisono::simulate {

/// Brings the link's clock up to `now`.
void FairLinks::read(Link& link, double now) {
  if (!link.served.empty()) link.clock += (now - link.read_at) / static_cast<double>(link.served.size());
  link.read_at = now;
}

void FairLinks::begin(std::uint32_t index, const Message& message, double now) {
  Link& link = links_[index];
  read(link, now);
  link.served.push({link.clock + message.work, message});
}

std::uint32_t FairLinks::depart(std::uint32_t index, double now) {
  Link& link = links_[index];
  read(link, now);
  const Served first = link.served.top();
  link.served.pop();
  link.clock = first.end;  // what it is but for rounding
  return first.message.task;
}

std::optional<FairLinks::Due> FairLinks::due(std::uint32_t index, double now) {
  Link& link = links_[index];
  if (link.served.empty()) return std::nullopt;
  const double left = std::max(0.0, link.served.top().end - link.clock);
  return Due{now + left * static_cast<double>(link.served.size()), ++link.version};
}

}  // namespace unisono::simulate

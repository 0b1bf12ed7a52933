#include "simulate/fair.h"

#include <algorithm>

namespace unisono::simulate {

FairLinks::FairLinks(std::size_t links) : memory_(std::make_unique<std::pmr::unsynchronized_pool_resource>()) {
  links_.reserve(links);
  for (std::size_t i = 0; i < links; i++) links_.emplace_back(memory_.get());
}

void FairLinks::wait(Line& line, const Message& message) {
  std::uint32_t place = free_;
  if (place == kNone) {
    place = static_cast<std::uint32_t>(waiting_.size());
    waiting_.emplace_back();
  } else {
    free_ = waiting_[place].next;
  }
  waiting_[place] = {message, kNone};
  (line.first == kNone ? line.first : waiting_[line.last].next) = place;
  line.last = place;
}

std::optional<FairLinks::Message> FairLinks::next(Line& line) {
  const std::uint32_t place = line.first;
  if (place == kNone) return std::nullopt;
  line.first = waiting_[place].next;
  waiting_[place].next = free_;
  free_ = place;
  return waiting_[place].message;
}

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
  const auto [line, idle] = link.lines.try_emplace(message.connection);
  if (idle)
    link.served.push({link.clock + message.work, message});
  else
    wait(line->second, message);
  return {idle, due(link, now)};
}

FairLinks::Departure FairLinks::depart(std::uint32_t index, double now) {
  Link& link = links_[index];
  read(link, now);
  const Served first = link.served.top();
  link.served.pop();
  link.clock = first.end;  // what it is but for rounding
  Departure departure{first.message.task, std::nullopt, std::nullopt};
  const auto behind = link.lines.find(first.message.connection);
  if (const auto message = next(behind->second)) {
    link.served.push({link.clock + message->work, *message});
    departure.begun = message->task;
  } else {
    link.lines.erase(behind);
  }
  if (!link.served.empty()) departure.due = due(link, now);
  return departure;
}

}  // namespace unisono::simulate

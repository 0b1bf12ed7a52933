#include "plan/stage_clocks.h"

#include <algorithm>

namespace unisono::plan::verification {

StageClocks::StageClocks(const Subject& subject, const Links& links, std::size_t cells)
    : subject_(subject), active_(!subject.plan(0).stage_extent.empty() || subject.plan(0).shared) {
  if (!active_) return;
  lane_of_.reserve(subject.steps());
  for (const Plan& plan : subject.plans) {
    first_lane_.push_back(lanes_);
    for (const Step& step : plan.steps) lane_of_.push_back(lanes_ + step.lane);
    lanes_ += plan.lanes;
  }
  clocks_.assign(std::size_t{lanes_} * lanes_, 0);
  incoming_.assign(subject.steps(), kNone);
  snapshot_.assign(subject.steps(), kNone);
  std::uint32_t count = 0;
  for (GlobalStep g = 0; g < subject.steps(); g++) {
    if (seen_elsewhere(g, links)) snapshot_[g] = count++;
  }
  snapshots_.assign(std::size_t{count} * lanes_, 0);
  cells_.resize(cells);
}

bool StageClocks::seen_elsewhere(GlobalStep g, const Links& links) const {
  const OpCode op = subject_.step(g).op;
  if (op == OpCode::signal || op == OpCode::send) return true;
  for (std::uint32_t i = links.first_successor[g]; i < links.first_successor[g + 1]; i++) {
    if (lane_of_[links.successors[i]] != lane_of_[g]) return true;
  }
  return false;
}

void StageClocks::join(GlobalStep later, GlobalStep earlier) {
  if (!active_ || lane_of_[later] == lane_of_[earlier]) return;
  edges_.push_back({earlier, incoming_[later]});
  incoming_[later] = static_cast<std::uint32_t>(edges_.size() - 1);
}

void StageClocks::enter(GlobalStep g) {
  if (!active_) return;
  std::uint32_t* to = clock(lane_of_[g]);
  for (std::uint32_t e = incoming_[g]; e != kNone; e = edges_[e].next) {
    const std::uint32_t lane = lane_of_[edges_[e].earlier];
    const std::uint32_t* from = snapshots_.data() + std::size_t{snapshot_[edges_[e].earlier]} * lanes_;
    // Who knows of a step knows all that it knew.
    if (to[lane] < from[lane]) take_later(to, from, lanes_);
  }
  incoming_[g] = kNone;
}

void StageClocks::leave(GlobalStep g) {
  if (!active_) return;
  enter(g);
  const std::uint32_t lane = lane_of_[g];
  clock(lane)[lane]++;
  if (snapshot_[g] == kNone) return;
  std::copy_n(clock(lane), lanes_, snapshots_.data() + std::size_t{snapshot_[g]} * lanes_);
}

GlobalStep StageClocks::read(GlobalStep g, std::uint32_t cell) {
  const std::uint32_t lane = lane_of_[g];
  Cell& c = cells_[cell];
  readers_.push_back({{lane, clock(lane)[lane] + 1, g}, c.readers});
  c.readers = static_cast<std::uint32_t>(readers_.size() - 1);
  return before(c.writer, lane) ? kNone : c.writer.step;
}

GlobalStep StageClocks::outlasts(std::uint32_t cell, std::int32_t rank) {
  if (!active_) return kNone;
  const std::uint32_t first = first_lane_[static_cast<std::size_t>(rank)], end = first + subject_.plan(rank).lanes;
  const auto seen = [&](const Access& a) {
    if (a.step == kNone) return true;
    for (std::uint32_t lane = first; lane < end; lane++) {
      if (before(a, lane)) return true;
    }
    return false;
  };
  const Cell& c = cells_[cell];
  GlobalStep late = seen(c.writer) ? kNone : c.writer.step;
  for (std::uint32_t i = c.readers; i != kNone; i = readers_[i].next) {  // the latest first: the earliest is told
    if (!seen(readers_[i].access)) late = readers_[i].access.step;
  }
  return late;
}

GlobalStep StageClocks::write(GlobalStep g, std::uint32_t cell) {
  const std::uint32_t lane = lane_of_[g];
  Cell& c = cells_[cell];
  GlobalStep conflict = before(c.writer, lane) ? kNone : c.writer.step;
  for (std::uint32_t i = c.readers; i != kNone; i = readers_[i].next) {
    const Access& reader = readers_[i].access;
    if (reader.step == g || before(reader, lane)) continue;
    conflict = reader.step;
    break;
  }
  c.writer = {lane, clock(lane)[lane] + 1, g};
  c.readers = kNone;
  return conflict;
}

}  // namespace unisono::plan::verification

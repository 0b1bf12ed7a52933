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
  incoming_ = Lists<GlobalStep>(subject.steps());
  snapshot_.assign(subject.steps(), kNone);
  std::uint32_t count = 0;
  for (GlobalStep g = 0; g < subject.steps(); g++) {
    if (seen_elsewhere(g, links)) snapshot_[g] = count++;
  }
  snapshots_.assign(std::size_t{count} * lanes_, 0);
  writers_.resize(cells);
  readers_ = Lists<Access>(cells);
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
  incoming_.add(later, earlier);
}

void StageClocks::enter(GlobalStep g) {
  if (!active_) return;
  std::uint32_t* to = clock(lane_of_[g]);
  incoming_.for_each(g, [&](GlobalStep earlier) {
    const std::uint32_t lane = lane_of_[earlier];
    const std::uint32_t* from = snapshots_.data() + std::size_t{snapshot_[earlier]} * lanes_;
    // Who knows of a step knows all that it knew.
    if (to[lane] < from[lane]) take_later(to, from, lanes_);
  });
  incoming_.clear(g);
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
  readers_.add(cell, {lane, clock(lane)[lane] + 1, g});
  return before(writers_[cell], lane) ? kNone : writers_[cell].step;
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
  GlobalStep first_reader = kNone;
  readers_.for_each(cell, [&](const Access& reader) {
    if (!seen(reader)) first_reader = reader.step;
  });
  if (first_reader != kNone) return first_reader;
  return seen(writers_[cell]) ? kNone : writers_[cell].step;
}

GlobalStep StageClocks::write(GlobalStep g, std::uint32_t cell) {
  const std::uint32_t lane = lane_of_[g];
  Access& writer = writers_[cell];
  GlobalStep conflict = before(writer, lane) ? kNone : writer.step, last_reader = kNone;
  readers_.for_each(cell, [&](const Access& reader) {
    if (last_reader == kNone && reader.step != g && !before(reader, lane)) last_reader = reader.step;
  });
  if (last_reader != kNone) conflict = last_reader;
  writer = {lane, clock(lane)[lane] + 1, g};
  readers_.clear(cell);
  return conflict;
}

}  // namespace unisono::plan::verification

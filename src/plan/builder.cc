#include "plan/builder.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "plan/layout.h"

namespace unisono::plan {

namespace {

bool adjacent(const Ref& a, const Ref& b) {
  return a.space == b.space && a.rank == b.rank && a.first + a.count == b.first && a.space != Space::stage;
}

}  // namespace

void RefList::add(Ref ref) {
  if (ref.count == 0) return;
  if (!refs_.empty() && adjacent(refs_.back(), ref)) {
    refs_.back().count += ref.count;
  } else {
    refs_.push_back(ref);
  }
}

PlanBuilder::PlanBuilder(Collective collective, std::string_view algorithm, const Shape& shape, std::int32_t blocks) {
  plan_.collective = collective;
  plan_.algorithm = algorithm;
  plan_.shape = shape;
  Layout layout = layout_of(collective, shape, blocks);
  plan_.extents = layout.extents;
  plan_.in_extent = std::move(layout.in);
  plan_.out_extent = std::move(layout.out);
  alias();
  send_lane_.assign(static_cast<std::size_t>(shape.ranks), -1);
  recv_lane_.assign(static_cast<std::size_t>(shape.ranks), -1);
}

void PlanBuilder::alias() {
  const auto fresh = [&](std::size_t count) {
    std::vector<std::uint32_t> cells(count);
    for (std::uint32_t& cell : cells) cell = new_cell();
    return cells;
  };
  in_cell_ = fresh(plan_.in_extent.size());
  out_cell_ = fresh(plan_.out_extent.size());
  in_shared_.assign(plan_.in_extent.size(), kNone);
  out_shared_.assign(plan_.out_extent.size(), kNone);
  for (const auto& [in, out] : aliased_blocks(plan_)) {
    in_shared_[static_cast<std::size_t>(in)] = out_shared_[static_cast<std::size_t>(out)] = new_cell();
  }
}

std::uint32_t PlanBuilder::new_cell() {
  cells_.emplace_back();
  return static_cast<std::uint32_t>(cells_.size() - 1);
}

Ref PlanBuilder::all(Space space) const {
  return {space, -1, 0, static_cast<std::int32_t>(plan_.extents_of(space).size())};
}

RefList PlanBuilder::wrapped(Space space, std::int32_t first, std::int32_t count) const {
  RefList list;
  const std::int32_t before_end = std::min(count, ranks() - first);
  list.add({space, -1, first, before_end});
  list.add({space, -1, 0, count - before_end});
  return list;
}

Ref PlanBuilder::new_scratch(std::int32_t extent) {
  const Ref ref{Space::scratch, -1, static_cast<std::int32_t>(plan_.scratch_extent.size()), 1};
  plan_.scratch_extent.push_back(extent);
  if (!plan_.wide.empty()) plan_.wide.push_back(0);
  scratch_cell_.push_back(new_cell());
  return ref;
}

Ref PlanBuilder::new_wide_scratch(std::int32_t extent) {
  const Ref ref = new_scratch(extent);
  plan_.wide.resize(plan_.scratch_extent.size());
  plan_.wide.back() = 1;
  return ref;
}

Ref PlanBuilder::new_scratch_wrapped(std::int32_t first, std::int32_t count) {
  Ref ref{Space::scratch, -1, static_cast<std::int32_t>(plan_.scratch_extent.size()), count};
  for (std::int32_t i = 0; i < count; i++) new_scratch((first + i) % ranks());
  return ref;
}

void PlanBuilder::stage_extents(std::vector<std::int32_t> extents) {
  plan_.staged = true;
  plan_.stage_extent = std::move(extents);
  for (std::size_t i = 0; i < plan_.stage_extent.size(); i++) stage_cell_.push_back(new_cell());
}

void PlanBuilder::share(std::vector<std::uint8_t> exposed) {
  plan_.staged = plan_.shared = true;
  plan_.exposed = std::move(exposed);
}

std::int32_t PlanBuilder::extent_of(Ref ref) const {
  return plan_.extents_of(ref.space)[static_cast<std::size_t>(ref.first)];
}

StepId PlanBuilder::send(std::int32_t peer, const RefList& from) { return add(OpCode::send, peer, 0, {}, from.refs()); }
StepId PlanBuilder::recv(std::int32_t peer, const RefList& into) { return add(OpCode::recv, peer, 0, into.refs(), {}); }
StepId PlanBuilder::copy(Ref dst, Ref src) { return add(OpCode::copy, -1, 0, {&dst, 1}, {&src, 1}); }

StepId PlanBuilder::put(std::int32_t stage_block, Ref src) {
  const Ref dst = stage(rank(), stage_block);
  return add(OpCode::put, -1, 0, {&dst, 1}, {&src, 1});
}

StepId PlanBuilder::get(Ref dst, std::int32_t rank, std::int32_t stage_block) {
  const Ref src = stage(rank, stage_block);
  return add(OpCode::get, rank, 0, {&dst, 1}, {&src, 1});
}

StepId PlanBuilder::get(Ref dst, Ref peer) { return add(OpCode::get, peer.rank, 0, {&dst, 1}, {&peer, 1}); }
StepId PlanBuilder::put(Ref peer_out, Ref src) { return add(OpCode::put, peer_out.rank, 0, {&peer_out, 1}, {&src, 1}); }

StepId PlanBuilder::reduce_into(std::span<const Ref> dst, std::span<const Ref> sources, bool final) {
  return add(OpCode::reduce, -1, 0, dst, sources, final);
}

StepId PlanBuilder::reduce(std::initializer_list<Ref> dst, std::span<const Ref> sources, bool final) {
  return add(OpCode::reduce, -1, 0, {dst.begin(), dst.size()}, sources, final);
}

StepId PlanBuilder::reduce(Ref dst, std::initializer_list<Ref> sources, bool final) {
  return reduce({dst}, std::span<const Ref>{sources.begin(), sources.size()}, final);
}

StepId PlanBuilder::signal(std::uint16_t channel) {
  plan_.staged = true;
  plan_.channels = std::max<std::uint16_t>(plan_.channels, static_cast<std::uint16_t>(channel + 1));
  return add(OpCode::signal, -1, channel, {}, {});
}

StepId PlanBuilder::wait(std::int32_t peer, std::uint16_t channel) { return add(OpCode::wait, peer, channel, {}, {}); }

StepId PlanBuilder::add(OpCode op, std::int32_t peer, std::uint16_t channel, std::span<const Ref> dst,
                        std::span<const Ref> src, bool final) {
  const auto id = static_cast<StepId>(plan_.steps.size());
  Step step;
  step.op = op;
  step.final = final;
  step.lane = lane_of(op, peer);
  step.channel = channel;
  step.peer = peer;
  step.src_begin = static_cast<std::uint32_t>(plan_.refs.size());
  step.src_count = static_cast<std::uint32_t>(src.size());
  plan_.refs.insert(plan_.refs.end(), src.begin(), src.end());
  step.dst_begin = static_cast<std::uint32_t>(plan_.refs.size());
  step.dst_count = static_cast<std::uint32_t>(dst.size());
  plan_.refs.insert(plan_.refs.end(), dst.begin(), dst.end());

  needs_.clear();
  const bool no_op_in_place = op == OpCode::copy && copies_onto_itself(dst.front(), src.front());
  for (const Ref& ref : src) {
    for (const std::uint32_t cell : cells_of(ref)) read(cell, id);
    if (no_op_in_place) continue;
    for (const std::uint32_t cell : shared_cells_of(ref)) read(cell, id);
  }
  for (const Ref& ref : dst) {
    for (const std::uint32_t cell : cells_of(ref)) write(cell, id);
    if (no_op_in_place) continue;
    for (const std::uint32_t cell : shared_cells_of(ref)) write(cell, id);
  }
  if (op == OpCode::signal && !plan_.stage_extent.empty()) {  // what it publishes must be there
    for (const std::uint32_t cell : stage_cell_) read(cell, id);
  }
  step.dep_begin = static_cast<std::uint32_t>(plan_.deps.size());
  write_dependencies(step);
  plan_.steps.push_back(step);
  return id;
}

std::uint16_t PlanBuilder::lane_of(OpCode op, std::int32_t peer) {
  if (op != OpCode::send && op != OpCode::recv) return 0;
  const bool sending = op == OpCode::send;
  std::int32_t& lane = (sending ? send_lane_ : recv_lane_)[static_cast<std::size_t>(peer)];
  if (lane >= 0) return static_cast<std::uint16_t>(lane);
  auto& lanes = sending ? send_lanes_ : recv_lanes_;
  auto& peers = sending ? send_peers_ : recv_peers_;
  if (lanes.size() < lane_limit_) lanes.push_back(plan_.lanes++);
  lane = lanes[static_cast<std::size_t>(peers++) % lanes.size()];
  return static_cast<std::uint16_t>(lane);
}

namespace {

std::span<const std::uint32_t> part(const std::vector<std::uint32_t>& cells, const Ref& ref) {
  return std::span(cells).subspan(static_cast<std::size_t>(ref.first), static_cast<std::size_t>(ref.count));
}

}  // namespace

std::span<const std::uint32_t> PlanBuilder::cells_of(const Ref& ref) const {
  switch (ref.space) {
    case Space::in:
      return part(in_cell_, ref);
    case Space::out:
      return part(out_cell_, ref);
    case Space::scratch:
      return part(scratch_cell_, ref);
    case Space::stage:
      // Other ranks' stages are ordered by signal and wait, which share lane 0 with all that reads them.
      if (ref.rank == rank()) return part(stage_cell_, ref);
      break;
    case Space::peer_in:
    case Space::peer_out:
      break;  // the same holds for other ranks' buffers
  }
  return {};
}

std::span<const std::uint32_t> PlanBuilder::shared_cells_of(const Ref& ref) const {
  if (ref.space == Space::in) return part(in_shared_, ref);
  if (ref.space == Space::out) return part(out_shared_, ref);
  return {};
}

bool PlanBuilder::copies_onto_itself(const Ref& dst, const Ref& src) const {
  const auto to = shared_cells_of(dst), from = shared_cells_of(src);
  return !to.empty() && std::ranges::equal(to, from) && std::ranges::find(to, kNone) == to.end();
}

void PlanBuilder::read(std::uint32_t cell_index, StepId step) {
  if (cell_index == kNone) return;
  Cell& cell = cells_[cell_index];
  if (cell.writer == step) return;
  need(cell.writer);
  readers_.push_back({step, cell.readers});
  cell.readers = static_cast<std::uint32_t>(readers_.size() - 1);
}

void PlanBuilder::write(std::uint32_t cell_index, StepId step) {
  if (cell_index == kNone) return;
  Cell& cell = cells_[cell_index];
  need(cell.writer);
  for (std::uint32_t r = cell.readers; r != kNone; r = readers_[r].next) need(readers_[r].step);
  cell = {step, kNone};
}

// A lane runs in order: its latest step stands for the earlier ones, and the step's own lane needs no word at all.
void PlanBuilder::write_dependencies(Step& step) {
  std::sort(needs_.begin(), needs_.end(), std::greater<>());
  const auto id = static_cast<StepId>(plan_.steps.size());
  for (const StepId earlier : needs_) {
    if (earlier == id) continue;
    const auto kept = std::span(plan_.deps).subspan(step.dep_begin);
    const std::uint16_t lane = plan_.steps[earlier].lane;
    const bool stood_for = lane == step.lane || std::any_of(kept.begin(), kept.end(), [&](std::uint32_t dep) {
                             return plan_.steps[dep].lane == lane;
                           });
    if (!stood_for) plan_.deps.push_back(earlier);
  }
  step.dep_count = static_cast<std::uint32_t>(plan_.deps.size()) - step.dep_begin;
}

void PlanBuilder::after(StepId earlier) {
  Step& step = plan_.steps.back();
  if (plan_.steps[earlier].lane == step.lane) return;
  plan_.deps.push_back(earlier);
  step.dep_count++;
}

Plan PlanBuilder::build() && { return std::move(plan_); }

}  // namespace unisono::plan

#include "simulate/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "simulate/run.h"

namespace unisono::simulate {

using plan::OpCode;

Run::Run(const Model& model, const World& world, Fabric fabric, Picture picture, const Slicing& slicing)
    : model_(model),
      world_(world),
      fabric_(std::move(fabric)),
      fair_(model.fair ? fabric_.links() : 0),
      memory_(model.numa, world.shape.nodes),
      picture_(picture),
      slicing_(slicing) {
  slices_ = static_cast<std::int32_t>(slices_of(slicing));
  window_ = std::min(slicing.window, slices_);
  copies_ = picture == Picture::whole ? world.copies : 1;
  nodes_.resize(static_cast<std::size_t>(copies_) * world.classes);
  for (std::size_t v = 0; v < nodes_.size(); v++)
    nodes_[v].host = picture == Picture::whole && !world.shape.hosts.empty() ? world.shape.hosts[v] : 0;
  needs_.resize(world.ops.size() * copies_ * window_);
  slots_.resize(nodes_.size() * window_);
  open_ = world.staged && !world.shared ? window_ : slices_;
  retired_by_.assign(world.staged ? slices_ : 0, 0);
}

Result<Timing> Run::run() {
  start_all();
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    events_.look_ahead([this](const Event& next) { fetch(next); });
    if (!events_.empty()) fetch_more(events_.top());
    now_ = event.time;
    timing_.events++;
    if (event.version == kTask)
      happen(event.task);
    else if (fair_.current(event.task, event.version))
      on_departure(event.task);
  }
  if (finished_ != nodes_.size())
    return Status::internal(fmt::format("{} of {} ranks never end: the plans wait for each other",
                                        nodes_.size() - finished_, nodes_.size()));
  describe_busiest();
  return std::move(timing_);
}

std::uint32_t Run::new_task() {
  if (free_.empty()) {
    tasks_.emplace_back();
    return static_cast<std::uint32_t>(tasks_.size() - 1);
  }
  const std::uint32_t task = free_.back();
  free_.pop_back();
  return task;
}

void Run::happen(std::uint32_t index) {
  Task& t = tasks_[index];
  switch (t.kind) {
    case Kind::sent:
      return on_sent(index);
    case Kind::at_link:
      return on_link(index);
    case Kind::arrived:
      return on_arrived(index);
    case Kind::idle:
      nodes_[t.node].looked_after = false;
      free_.push_back(index);
      return look_after(tasks_[index].node);
    case Kind::opened:
      open_++;
      path_ = t.path;
      free_.push_back(index);
      return start_all();
    case Kind::delivered:
    case Kind::freed:
      break;
  }
  path_ = t.path;
  const Ready what{t.node, t.slice, t.op};
  const bool satisfied = t.kind == Kind::delivered && t.to_op != kOwn;
  free_.push_back(index);
  if (satisfied)
    satisfy(what);
  else
    finish(what);
  work();
}

void Run::start_all() {
  for (std::int32_t v = 0; v < static_cast<std::int32_t>(nodes_.size()); v++) {
    start_slices(v);
    work();
  }
}

void Run::start_slices(std::int32_t v) {
  Node& node = nodes_[v];
  while (node.next < std::min(slices_, open_) && node.next - node.retired < window_) {
    const std::int32_t slice = node.next++;
    const std::uint32_t ops = world_.size_of(class_of(v));
    slot(v, slice) = {slice, ops};
    for (std::uint32_t i = 0; i < ops; i++) need(v, slice, i) = op_of(v, i).needs;
    for (std::uint32_t i = 0; i < ops; i++)
      if (op_of(v, i).needs == 0) ready_.push_back({v, slice, i});
    const auto early = early_.find(key(v, slice));
    if (early != early_.end()) {
      for (const std::uint32_t op : early->second)
        if (--need(v, slice, op) == 0) ready_.push_back({v, slice, op});
      early_.erase(early);
    }
    if (ops == 0) retire(v);
  }
}

void Run::work() {
  while (next_ready_ < ready_.size()) {
    const Ready what = ready_[next_ready_++];
    begin(what);
  }
  ready_.clear();
  next_ready_ = 0;
}

void Run::satisfy(const Ready& what) {
  if (slot(what.node, what.slice).slice != what.slice) {
    early_[key(what.node, what.slice)].push_back(what.op);
    return;
  }
  if (--need(what.node, what.slice, what.op) == 0) ready_.push_back(what);
}

void Run::begin(const Ready& what) {
  const Op& op = op_of(what.node, what.op);
  switch (op.op) {
    case OpCode::recv:
    case OpCode::wait:
      return finish(what);
    case OpCode::signal:
      for (std::uint32_t t = op.targets; t < op.targets_end; t++) signal(what, world_.targets[t]);
      return finish(what);
    case OpCode::send:
      return send(what, op);
    case OpCode::copy:
    case OpCode::put:
    case OpCode::get:
    case OpCode::reduce:
      if (memory_.known() && op.touches != op.touches_end) return queue_for_memory(what);
      return occupy(what, work_of(op, what.slice));
  }
}

double Run::work_of(const Op& op, std::int32_t slice) const {
  const double bytes = bytes_of(op.blocks, slice);
  if (op.op == OpCode::reduce) return model_.gamma * op.additions * bytes;
  return op.op == OpCode::copy && op.additions == 0 ? 0 : model_.copy * bytes;
}

void Run::finish(const Ready& what) {
  const Op& op = op_of(what.node, what.op);
  for (std::uint32_t i = op.successors; i < op.successors_end; i++) {
    const std::uint32_t next = world_.successors[i];
    if (--need(what.node, what.slice, next) == 0) ready_.push_back({what.node, what.slice, next});
  }
  if (--slot(what.node, what.slice).left == 0) retire(what.node);
}

void Run::retire(std::int32_t v) {
  Node& node = nodes_[v];
  while (node.retired < node.next && slot(v, node.retired).left == 0) {
    if (world_.staged && ++retired_by_[node.retired] == nodes_.size()) open_slot(v, node.retired);
    if (++node.retired == slices_) end(v);
  }
  if (node.next < slices_) start_later_.push_back(v);
  if (starting_) return;
  starting_ = true;
  for (std::size_t i = 0; i < start_later_.size(); i++) start_slices(start_later_[i]);
  start_later_.clear();
  starting_ = false;
}

void Run::end(std::int32_t v) {
  finished_++;
  if (now_ < timing_.seconds || (finished_ > 1 && now_ == timing_.seconds)) return;
  timing_.seconds = now_;
  timing_.last_rank = v;
  timing_.path = path_;
}

void Run::open_slot(std::int32_t v, std::int32_t slice) {
  const std::uint32_t index = new_task();
  Task& t = tasks_[index];
  t.kind = Kind::opened;
  t.node = v;
  t.slice = slice;
  t.op = 0;
  t.path = path_;
  t.path.latency += model_.local.L;
  schedule(index, now_ + model_.local.L);
}

double Run::reserve(std::int32_t v, double seconds, Path& path) {
  Node& node = nodes_[v];
  const double start = std::max(now_, node.processor);
  path.queue += start - now_;
  path.compute += seconds;
  node.busy += seconds;
  return node.processor = start + seconds;
}

void Run::occupy(const Ready& what, double seconds) {
  if (seconds == 0) return finish(what);
  Path path = path_;
  const double end = reserve(what.node, seconds, path);
  complete(what, path, end);
}

void Run::complete(const Ready& what, const Path& path, double end) {
  const std::uint32_t index = new_task();
  Task& t = tasks_[index];
  t.kind = Kind::delivered;
  t.node = what.node;
  t.slice = what.slice;
  t.op = what.op;
  t.to_op = kOwn;
  t.path = path;
  schedule(index, end);
}

void Run::describe_busiest() {
  const auto [link, busy] = fabric_.busiest();
  timing_.busiest = fabric_.name_of(link);
  timing_.busy = busy;
  timing_.crossed = memory_.crossed();
  if (auto [name, seconds] = memory_.busiest(); seconds > timing_.busy) {
    timing_.busiest = std::move(name);
    timing_.busy = seconds;
  }
  for (std::size_t v = 0; v < nodes_.size(); v++) {
    if (nodes_[v].busy <= timing_.busy) continue;
    timing_.busiest = fmt::format("processor of rank {}", v);
    timing_.busy = nodes_[v].busy;
  }
}

std::int64_t slices_of(const Slicing& slicing) {
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::ceil(slicing.block / static_cast<double>(slicing.slice))));
}

double expected_events(const World& world, const Fabric& fabric, Picture picture, const Slicing& slicing, bool fair) {
  const double share = picture == Picture::whole ? 1 : 1.0 / world.copies;
  const double steps = static_cast<double>(world.ops.size()) * (picture == Picture::whole ? world.copies : 1);
  const double messages = static_cast<double>(world.messages) * share;
  return (messages * (3 + (fair ? 2 : 1) * (2 + fabric.mean_hops())) + (steps - 2 * messages)) *
         static_cast<double>(slices_of(slicing));
}

Result<Timing> run(const Model& model, const World& world, Fabric fabric, Picture picture, const Slicing& slicing) {
  return Run(model, world, std::move(fabric), picture, slicing).run();
}

}  // namespace unisono::simulate

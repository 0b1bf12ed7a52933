#include <algorithm>

#include "simulate/run.h"

/// Messages and signals, from the sender's processor to the receiver's.
namespace unisono::simulate {

void Run::signal(const Ready& what, const Target& target) {
  const std::uint32_t index = new_task();
  Task& t = tasks_[index];
  t.kind = Kind::delivered;
  t.node = target.to;
  t.slice = what.slice;
  t.op = target.op;
  t.to_op = 0;
  t.path = path_;
  const double latency = model_.local.L + memory_.latency(what.node, target.to);
  t.path.latency += latency;
  t.path.messages++;
  schedule(index, now_ + latency);
}

void Run::send(const Ready& what, const Op& op) {
  const double bytes = bytes_of(op.blocks, what.slice);
  const Target& target = world_.targets[op.targets];
  const std::int32_t copy = (what.node / world_.classes + target.shift) % copies_;
  const std::uint32_t index = new_task();
  Task& t = tasks_[index];
  t.kind = Kind::sent;
  t.node = what.node;
  t.slice = what.slice;
  t.op = what.op;
  t.to = copy * world_.classes + target.to;
  t.to_op = target.op;
  t.shift = target.shift;
  t.local = picture_ == Picture::whole ? nodes_[t.node].host == nodes_[t.to].host : t.shift == 0;
  t.bytes = t.local ? bytes : bytes + model_.header;
  t.path = path_;
  schedule(index, reserve(what.node, overhead(t), t.path));
}

double Run::overhead(const Task& t) const {
  return t.local ? model_.local.o + t.bytes * model_.local.G : model_.network.o + t.bytes * model_.network.O;
}

void Run::on_sent(std::uint32_t index) {
  Task& t = tasks_[index];
  const Ready what{t.node, t.slice, t.op};
  t.path.messages++;
  path_ = t.path;
  double done = now_;
  if (t.local) {
    t.kind = Kind::arrived;
    const double latency = model_.local.L + memory_.latency(t.node, t.to);
    // The receiver reads it out of the sender's memory.
    const double through =
        memory_.known() ? memory_.read(memory_.node_of(t.node), memory_.node_of(t.to), t.bytes, now_) : now_;
    t.path.latency += latency;
    t.path.queue += through - now_;
    schedule(index, through + latency);
  } else {
    fabric_.route(nodes_[t.node].host, nodes_[t.to].host, t.shift, t.route);
    t.hop = 0;
    t.links_left = static_cast<std::uint32_t>(t.route.size());
    t.kind = Kind::at_link;
    t.head = t.tail = t.since = now_;
    t.queued = t.alone = 0;
    // It is in the hands of the port, but for what does not fit into the buffer.
    done = std::max(now_, std::max(fabric_.free_at(t.route[0]), now_) + t.bytes * model_.network.G -
                              model_.buffer * model_.network.G);
    on_link(index);
  }
  if (done <= now_)
    finish(what);
  else
    finish_later(what, done);
  work();
}

void Run::finish_later(const Ready& what, double time) {
  const std::uint32_t index = new_task();
  Task& t = tasks_[index];
  t.kind = Kind::freed;
  t.node = what.node;
  t.slice = what.slice;
  t.op = what.op;
  t.path = path_;
  t.path.queue += time - now_;
  schedule(index, time);
}

void Run::on_link(std::uint32_t index) {
  if (model_.fair) return enter(index);
  Task& t = tasks_[index];
  const double start = fabric_.serve(t.route[t.hop], t.shift, t.bytes, t.head, t.tail);
  t.queued += start - now_;
  if (++t.hop < t.route.size()) return schedule(index, t.head);
  t.kind = Kind::arrived;
  const double latency = fabric_.latency(t.route, t.shift);
  t.path.latency += latency;
  t.path.queue += t.queued;
  t.path.transfer += t.tail - t.since - latency - t.queued;
  schedule(index, t.tail);
}

void Run::join(std::uint32_t index) {
  Task& t = tasks_[index];
  t.behind = kNone;
  const auto [last, alone] = last_.try_emplace(connection_of(t), index);
  t.before = alone ? kNone : last->second;
  if (!alone) tasks_[t.before].behind = index;
  last->second = index;
}

void Run::leave(std::uint32_t index) {
  const Task& t = tasks_[index];  // the first one: whoever was before it was through before
  if (t.behind == kNone)
    last_.erase(connection_of(t));
  else
    tasks_[t.behind].before = kNone;
}

void Run::enter(std::uint32_t index) {
  if (tasks_[index].hop == 0) join(index);
  Task& t = tasks_[index];
  const LinkId link = t.route[t.hop];
  t.work = fabric_.take(link, t.shift, t.bytes, now_).work;
  t.alone = std::max(t.alone, t.work);
  t.held = t.before != kNone && tasks_[t.before].route[t.hop] != kThrough;
  if (t.held) return;
  begin_link(index);
  expect(link, order_of(t));
}

void Run::begin_link(std::uint32_t index) {
  Task& t = tasks_[index];
  const LinkId link = t.route[t.hop];
  fair_.begin(link, {t.work, order_of(t), index}, now_);
  if (++t.hop < t.route.size()) schedule(index, now_ + fabric_.onward(link, t.shift));
}

void Run::on_departure(LinkId link) {
  const std::uint32_t index = fair_.depart(link, now_);
  Task& t = tasks_[index];
  const auto at = std::find(t.route.begin(), t.route.end(), link);
  const auto hop = static_cast<std::uint32_t>(at - t.route.begin());
  *at = kThrough;
  if (t.behind != kNone && tasks_[t.behind].held && tasks_[t.behind].hop == hop) {
    tasks_[t.behind].held = false;
    begin_link(t.behind);
  }
  expect(link, order_of(t));
  t.tail = std::max(t.tail, now_ + fabric_.left(hop, t.route, t.shift));
  if (--t.links_left > 0) return;
  leave(index);
  t.kind = Kind::arrived;
  const double latency = fabric_.latency(t.route, t.shift);
  t.path.latency += latency;
  t.queued = std::max(0.0, t.tail - t.since - latency - t.alone);  // of equal times rounding leaves less than nothing
  t.path.queue += t.queued;
  t.path.transfer += t.tail - t.since - latency - t.queued;
  schedule(index, t.tail);
}

void Run::on_arrived(std::uint32_t index) {
  Task& t = tasks_[index];
  t.kind = Kind::delivered;
  t.node = t.to;
  t.op = t.to_op;
  t.to_op = 0;
  const double seconds = overhead(t);
  if (seconds == 0) return happen(index);
  schedule(index, reserve(t.node, seconds, t.path));
}

}  // namespace unisono::simulate

#include <algorithm>

#include "simulate/run.h"

/// Steps on memory that can be busy. How long such a step takes is known only when it begins, so a processor that is busy keeps what came
/// meanwhile, and takes the oldest slice's next, as the library's engine does.
namespace unisono::simulate {

void Run::queue_for_memory(const Ready& what) {
  nodes_[what.node].waiting.push_back({what, path_, now_});
  look_after(what.node);
}

void Run::look_after(std::int32_t v) {
  Node& node = nodes_[v];
  if (node.waiting.empty() || node.looked_after) return;
  if (node.processor <= now_) {
    const auto oldest = std::min_element(node.waiting.begin(), node.waiting.end(),
                                         [](const auto& a, const auto& b) { return a.what.slice < b.what.slice; });
    Waiting next = *oldest;
    node.waiting.erase(oldest);
    next.path.queue += now_ - next.since;
    use_memory(next.what, next.path);
    if (node.waiting.empty()) return;
  }
  const std::uint32_t index = new_task();
  Task& t = tasks_[index];
  t.kind = Kind::idle;
  t.node = v;
  t.slice = 0;
  t.op = 0;
  node.looked_after = true;
  schedule(index, node.processor);
}

void Run::use_memory(const Ready& what, const Path& path) {
  const Op& op = op_of(what.node, what.op);
  Node& node = nodes_[what.node];
  const std::int32_t here = memory_.node_of(what.node);
  const double work = work_of(op, what.slice);
  double end = now_ + work;
  for (std::uint32_t i = op.touches; i < op.touches_end; i++) {
    const Touch& touch = world_.touches[i];
    const double bytes = bytes_of(touch.blocks, what.slice);
    end = std::max(
        end, touch.writes ? memory_.write(here, touch.node, bytes, now_) : memory_.read(touch.node, here, bytes, now_));
  }
  node.busy += work;
  node.processor = end;
  Path taken = path;
  taken.compute += work;
  taken.queue += end - now_ - work;
  complete(what, taken, end);
}

}  // namespace unisono::simulate

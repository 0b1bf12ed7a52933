#include "simulate/program.h"

#include <algorithm>
#include <numeric>

#include "plan/layout.h"

namespace unisono::simulate {

namespace {

using plan::OpCode;
using plan::Ref;
using plan::Space;

bool local_work(OpCode op) { return op == OpCode::reduce || op == OpCode::copy; }

std::int32_t blocks_of(std::span<const Ref> refs) {
  return std::accumulate(refs.begin(), refs.end(), 0, [](std::int32_t sum, const Ref& ref) { return sum + ref.count; });
}

class Simplifier {
 public:
  explicit Simplifier(const plan::Plan& plan) : plan_(plan), aliased_(plan::aliased_blocks(plan)) {
    line_of_.resize(plan.steps.size());
    last_on_lane_.assign(plan.lanes, kNone);
  }

  Program run() && {
    for (std::uint32_t i = 0; i < plan_.steps.size(); i++) add(i);
    return std::move(program_);
  }

 private:
  void add(std::uint32_t index) {
    const plan::Step& step = plan_.steps[index];
    const std::uint32_t before = last_on_lane_[step.lane];
    needs_.clear();
    if (before != kNone) needs_.push_back(before);
    for (const std::uint32_t dep : plan_.waits_for(step))
      if (line_of_[dep] != before) needs_.push_back(line_of_[dep]);
    std::sort(needs_.begin(), needs_.end());
    needs_.erase(std::unique(needs_.begin(), needs_.end()), needs_.end());
    Line line{step.op, step.channel, step.peer, 0, 0, 0, 0, 0, 0};
    const auto dst = plan_.dst(step), src = plan_.src(step);
    line.blocks = step.op == OpCode::send   ? blocks_of(src)
                  : step.op == OpCode::recv ? blocks_of(dst)
                  : dst.empty()             ? 0
                                            : dst[0].count;
    if (step.op == OpCode::reduce) line.additions = static_cast<std::int32_t>(src.size()) - 1;
    if (step.op == OpCode::copy) line.additions = nothing_in_place(dst[0], src[0]) ? 0 : 1;
    if (joins(line, before)) {
      program_.lines.back().blocks += line.blocks;
    } else {
      line.needs = static_cast<std::uint32_t>(program_.needs.size());
      program_.needs.insert(program_.needs.end(), needs_.begin(), needs_.end());
      line.needs_end = static_cast<std::uint32_t>(program_.needs.size());
      touch(step, line);
      program_.lines.push_back(line);
    }
    line_of_[index] = last_on_lane_[step.lane] = static_cast<std::uint32_t>(program_.lines.size() - 1);
  }

  // Where a vector's end is in the middle of what an algorithm adds up, one rank does in two steps what others do in one: the same
  // work after the same steps, which the engine does in one go.
  bool joins(const Line& line, std::uint32_t before) const {
    if (!plan_.shape.nodes.empty()) return false;  // what it touches would be two steps' work
    if (before == kNone || before + 1 != program_.lines.size() || !local_work(line.op)) return false;
    const Line& last = program_.lines.back();
    if (last.op != line.op || last.additions != line.additions) return false;
    const auto begin = program_.needs.begin() + last.needs, end = program_.needs.begin() + last.needs_end;
    return std::all_of(needs_.begin(), needs_.end(),
                       [&](std::uint32_t need) { return need == before || std::binary_search(begin, end, need); });
  }

  /// Which memories a step on memory goes to: blocks are where the rank is that owns them.
  void touch(const plan::Step& step, Line& line) {
    const auto& nodes = plan_.shape.nodes;
    line.touches = line.touches_end = static_cast<std::uint32_t>(program_.touches.size());
    const bool on_memory = local_work(step.op) || step.op == OpCode::put || step.op == OpCode::get;
    if (nodes.empty() || !on_memory || (step.op == OpCode::copy && line.additions == 0)) return;
    const auto add = [&](const Ref& ref, bool writes) {
      const std::int32_t owner = plan::has_owner(ref.space) ? ref.rank : plan_.shape.rank;
      const std::int32_t node = nodes[static_cast<std::size_t>(owner)];
      for (std::uint32_t i = line.touches; i < line.touches_end; i++)
        if (Touch& known = program_.touches[i]; known.node == node && known.writes == writes) {
          known.blocks += ref.count;
          return;
        }
      program_.touches.push_back({node, ref.count, writes});
      line.touches_end++;
    };
    for (const Ref& ref : plan_.src(step)) add(ref, false);
    for (const Ref& ref : plan_.dst(step)) add(ref, true);
  }

  bool nothing_in_place(const Ref& dst, const Ref& src) const {
    if (dst.space != Space::out || src.space != Space::in) return false;
    const std::int32_t shift = dst.first - src.first;
    return std::any_of(aliased_.begin(), aliased_.end(), [&](const plan::AliasedBlocks& pair) {
      return pair.in == src.first && pair.out - pair.in == shift;
    });
  }

  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  const plan::Plan& plan_;
  const std::vector<plan::AliasedBlocks> aliased_;
  Program program_;
  std::vector<std::uint32_t> line_of_, last_on_lane_, needs_;
};

}  // namespace

Program simplify(const plan::Plan& plan) { return Simplifier(plan).run(); }

}  // namespace unisono::simulate

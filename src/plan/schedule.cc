/// Times the plans of all ranks together by the constants of cost_model.h.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <queue>
#include <tuple>

#include "plan/cost_model.h"
#include "plan/verify.h"

namespace unisono::plan {

namespace {

std::int32_t blocks_in(std::span<const Ref> refs) {
  std::int32_t blocks = 0;
  for (const Ref& ref : refs) blocks += ref.count;
  return blocks;
}

/// Every sending step with the step that receives it: the k-th of each way and channel.
std::vector<std::pair<std::int32_t, std::int32_t>> messages(const std::vector<Plan>& plans,
                                                            const std::vector<std::int32_t>& first) {
  std::map<std::tuple<std::int32_t, std::int32_t, std::uint16_t>,
           std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>>>
      ways;
  for (std::size_t r = 0; r < plans.size(); r++)
    for (std::size_t s = 0; s < plans[r].steps.size(); s++) {
      const Step& step = plans[r].steps[s];
      const auto rank = static_cast<std::int32_t>(r), node = first[r] + static_cast<std::int32_t>(s);
      if (step.op == OpCode::send) ways[{rank, step.peer, step.channel}].first.push_back(node);
      if (step.op == OpCode::recv) ways[{step.peer, rank, step.channel}].second.push_back(node);
    }
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
  for (const auto& [way, ends] : ways)
    for (std::size_t k = 0; k < std::min(ends.first.size(), ends.second.size()); k++)
      pairs.emplace_back(ends.first[k], ends.second[k]);
  return pairs;
}

}  // namespace

Schedule::Schedule(const Algorithm& algorithm, const Shape& shape) : hosts_(shape.hosts) {
  const std::vector<Plan> plans = build_all(algorithm, shape);
  if (hosts_.empty()) hosts_.assign(plans.size(), 0);
  const Collective c = algorithm.collective;
  const bool vector = c == Collective::all_reduce || c == Collective::reduce || c == Collective::broadcast;
  blocks_ = vector ? std::max(1, plans[0].extents) : static_cast<double>(plans.size());
  std::vector<std::int32_t> first;
  std::vector<std::pair<std::int32_t, std::int32_t>> edges;
  for (const Plan& plan : plans) {
    first.push_back(static_cast<std::int32_t>(nodes_.size()));
    std::map<std::uint16_t, std::int32_t> last;  // of each lane
    for (const Step& step : plan.steps) {
      const auto node = static_cast<std::int32_t>(nodes_.size());
      nodes_.push_back({step.op, plan.shape.rank, step.peer,
                        blocks_in(step.op == OpCode::send ? plan.src(step) : plan.dst(step)),
                        static_cast<std::int32_t>(step.src_count), 0, 0, 0});
      if (const auto before = last.find(step.lane); before != last.end()) edges.emplace_back(before->second, node);
      for (const std::uint32_t dep : plan.waits_for(step))
        edges.emplace_back(first.back() + static_cast<std::int32_t>(dep), node);
      last[step.lane] = node;
    }
  }
  for (const auto& message : messages(plans, first)) edges.push_back(message);
  std::sort(edges.begin(), edges.end());
  for (const auto& [from, to] : edges) {
    Node& node = nodes_[static_cast<std::size_t>(from)];
    if (node.end == 0) node.first = node.end = static_cast<std::int32_t>(successors_.size());
    successors_.push_back(to);
    node.end = static_cast<std::int32_t>(successors_.size());
    nodes_[static_cast<std::size_t>(to)].waits_for++;
  }
}

/// One slice, step by step, the earliest first.
class Schedule::Run {
 public:
  Run(const Schedule& schedule, const CostModel& model, double block)
      : s_(schedule),
        model_(model),
        block_(block),
        processors_(schedule.hosts_.size()),
        out_(schedule.hosts_.size()),
        in_(schedule.hosts_.size()) {}

  void run() {
    ready_.assign(s_.nodes_.size(), 0);
    waits_.resize(s_.nodes_.size());
    for (std::size_t i = 0; i < s_.nodes_.size(); i++) {
      waits_[i] = s_.nodes_[i].waits_for;
      if (waits_[i] == 0) next_.push({0, static_cast<std::int32_t>(i), false});
    }
    while (!next_.empty()) {
      const Event event = next_.top();
      next_.pop();
      const Node& node = s_.nodes_[static_cast<std::size_t>(event.node)];
      if (event.arrives)
        tell(node, arrive(node, event.at), true);
      else
        tell(node, perform(node, event.at, event.node), false);
    }
  }

  double last() const { return last_; }
  /// Of the link or processor that has most to do.
  double busiest() const {
    double most = 0;
    for (const auto* all : {&processors_, &out_, &in_})
      for (const Resource& r : *all) most = std::max(most, r.busy);
    return most;
  }

 private:
  struct Resource {
    double free = 0, busy = 0;
    /// Its end.
    double use(double from, double seconds) {
      free = std::max(free, from) + seconds;
      busy += seconds;
      return free;
    }
  };
  /// A step can start, or the first byte of a message comes to the link of its host. Of links, too, the earliest is served first.
  struct Event {
    double at;
    std::int32_t node;
    bool arrives;
    bool operator>(const Event& other) const noexcept {
      return std::tie(at, node, arrives) > std::tie(other.at, other.node, other.arrives);
    }
  };

  std::int32_t host(std::int32_t rank) const { return s_.hosts_[static_cast<std::size_t>(rank)]; }

  /// Those of its successors that wait for the message, or those of its own rank: it was over at `end`.
  void tell(const Node& node, double end, bool message) {
    last_ = std::max(last_, end);
    for (std::int32_t k = node.first; k < node.end; k++) {
      const std::int32_t to = s_.successors_[static_cast<std::size_t>(k)];
      if ((s_.nodes_[static_cast<std::size_t>(to)].rank != node.rank) != message) continue;
      double& ready = ready_[static_cast<std::size_t>(to)];
      ready = std::max(ready, end);
      if (--waits_[static_cast<std::size_t>(to)] == 0) next_.push({ready, to, false});
    }
  }

  /// When its last byte is there.
  double arrive(const Node& node, double at) {
    const LinkCost& link = model_.link(host(node.rank), host(node.peer));
    const double flight = std::max(0.0, link.alpha - link.gap);
    if (host(node.rank) == host(node.peer)) return at + flight;
    return in_[static_cast<std::size_t>(host(node.peer))].use(at, block_ * node.blocks * link.beta) + flight;
  }

  /// Its end on its own rank.
  double perform(const Node& node, double at, std::int32_t index) {
    Resource& processor = processors_[static_cast<std::size_t>(node.rank)];
    const double bytes = block_ * node.blocks;
    if (node.op == OpCode::reduce || node.op == OpCode::copy)
      return processor.use(at, bytes * model_.gamma * std::max(1, node.sources - 1));
    if (node.op == OpCode::recv) return processor.use(at, model_.link(host(node.peer), host(node.rank)).gap);
    if (node.op != OpCode::send) return at;
    const std::int32_t from = host(node.rank), to = host(node.peer);
    const LinkCost& link = model_.link(from, to);
    if (from == to) {
      const double end = processor.use(at, link.gap + bytes * link.beta);
      next_.push({end, index, true});
      return end;
    }
    const double end = out_[static_cast<std::size_t>(from)].use(processor.use(at, link.gap), bytes * link.beta);
    next_.push({end - bytes * link.beta, index, true});  // the first byte arrives when the last one has not left yet
    return end;
  }

  const Schedule& s_;
  const CostModel& model_;
  double block_;
  std::vector<Resource> processors_, out_, in_;  // by rank, and by host
  std::vector<double> ready_;                    // by node
  std::vector<std::int32_t> waits_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> next_;
  double last_ = 0;
};

double Schedule::seconds(const CostModel& model, std::int64_t bytes, std::int64_t slice) const {
  const double block = static_cast<double>(bytes) / blocks_;
  const double slices = std::max(1.0, std::ceil(block / static_cast<double>(slice)));
  Run run(*this, model, block / slices);
  run.run();
  return run.last() + (slices - 1) * run.busiest();
}

}  // namespace unisono::plan

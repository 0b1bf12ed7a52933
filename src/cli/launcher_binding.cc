#include "cli/launcher_binding.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <numeric>

namespace unisono::cli {
namespace {

/// The processors that are threads of this one's core, with itself.
std::vector<int> siblings_of(int cpu) {
  std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
  std::string text;
  std::getline(file, text);
  std::vector<int> siblings = parse_ranges(text);
  return siblings.empty() ? std::vector{cpu} : siblings;
}

NodeCores node_of(int number, std::vector<int> cpus) {
  NodeCores node{number, {}};
  while (!cpus.empty()) {
    const std::vector<int> siblings = siblings_of(cpus.front());
    auto& core = node.cores.emplace_back();
    const auto on_core = [&](int cpu) { return cpu == cpus.front() || std::ranges::count(siblings, cpu) > 0; };
    std::ranges::copy_if(cpus, std::back_inserter(core), on_core);
    std::erase_if(cpus, [&](int cpu) { return std::ranges::count(core, cpu) > 0; });
  }
  return node;
}

/// Whether ranks may be bound at all: where not, nobody asks for the host's nodes, which takes milliseconds.
bool looks_at_nodes(BindMode mode, int ranks) {
  return mode != BindMode::none && (mode != BindMode::automatic || ranks >= kBindFrom);
}

std::vector<int> processors_of(std::span<const std::vector<int>> cores) {
  std::vector<int> all;
  for (const auto& core : cores) all.insert(all.end(), core.begin(), core.end());
  std::ranges::sort(all);
  return all;
}

std::size_t count_cores(std::span<const NodeCores> nodes) {
  return std::accumulate(nodes.begin(), nodes.end(), std::size_t{0},
                         [](std::size_t sum, const NodeCores& node) { return sum + node.cores.size(); });
}

/// How many ranks each node gets: rank r belongs where the middle of the r-th of equal shares of all cores is.
std::vector<std::size_t> ranks_by_node(std::size_t ranks, std::span<const NodeCores> nodes) {
  std::vector<std::size_t> counts(nodes.size(), 0);
  const std::size_t cores = count_cores(nodes);
  for (std::size_t r = 0; r < ranks; r++) {
    std::size_t core = (2 * r + 1) * cores / (2 * ranks), node = 0;
    for (; core >= nodes[node].cores.size(); node++) core -= nodes[node].cores.size();
    counts[node]++;
  }
  return counts;
}

std::string range_of(std::size_t first, std::size_t count, const char* what) {
  return count == 1 ? fmt::format("{} {}", what, first) : fmt::format("{}s {}-{}", what, first, first + count - 1);
}

RankBinding by_node(int ranks, std::span<const NodeCores> nodes) {
  RankBinding binding{{}, "bound "};
  const auto counts = ranks_by_node(static_cast<std::size_t>(ranks), nodes);
  for (std::size_t n = 0; n < nodes.size(); n++) {
    if (counts[n] == 0) continue;
    const std::vector<int> processors = processors_of(nodes[n].cores);
    binding.line += fmt::format("{}{} to node {} (processors {})", binding.processors.empty() ? "" : ", ",
                                range_of(binding.processors.size(), counts[n], "local rank"), nodes[n].number,
                                ranges_text(processors));
    binding.processors.insert(binding.processors.end(), counts[n], processors);
  }
  binding.line += "; --bind none leaves them to the system";
  return binding;
}

/// The i-th of `parts` shares of these cores that are as even as can be.
std::vector<int> share_of(std::span<const std::vector<int>> cores, std::size_t i, std::size_t parts) {
  const std::size_t begin = i * cores.size() / parts, end = (i + 1) * cores.size() / parts;
  return processors_of(cores.subspan(begin, end - begin));
}

Result<RankBinding> by_core(int ranks, std::span<const NodeCores> nodes) {
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t cores = count_cores(nodes);
  if (cores < n)
    return Status::invalid(
        fmt::format("--bind core: {} ranks cannot each have a core of their own, there are {} (--bind node, or none)",
                    ranks, cores));
  RankBinding binding;
  if (n < nodes.size()) {  // shares larger than nodes
    std::vector<std::vector<int>> all;
    for (const NodeCores& node : nodes) all.insert(all.end(), node.cores.begin(), node.cores.end());
    for (std::size_t r = 0; r < n; r++) binding.processors.push_back(share_of(all, r, n));
  } else {
    const auto counts = ranks_by_node(n, nodes);
    for (std::size_t k = 0; k < nodes.size(); k++)
      for (std::size_t r = 0; r < counts[k]; r++) binding.processors.push_back(share_of(nodes[k].cores, r, counts[k]));
  }
  binding.line = "bound ";
  constexpr std::size_t kMostNamed = 8;
  for (std::size_t r = 0; r < std::min(n, kMostNamed); r++)
    binding.line +=
        fmt::format("{}local rank {} to processors {}", r == 0 ? "" : ", ", r, ranges_text(binding.processors[r]));
  if (n > kMostNamed) binding.line += fmt::format(", and so on over {} cores", cores);
  return binding;
}

}  // namespace

std::optional<BindMode> bind_mode_from_name(std::string_view name) {
  if (name == "auto") return BindMode::automatic;
  if (name == "none") return BindMode::none;
  if (name == "node") return BindMode::node;
  if (name == "core") return BindMode::core;
  return std::nullopt;
}

Result<RankBinding> bind_ranks(BindMode mode, int ranks, std::span<const NodeCores> nodes) {
  if (!looks_at_nodes(mode, ranks) || (mode == BindMode::automatic && nodes.size() < 2)) return RankBinding{};
  return mode == BindMode::core ? by_core(ranks, nodes) : Result(by_node(ranks, nodes));
}

std::vector<NodeCores> cores_by_node(const HostTopology& topology, std::span<const int> usable) {
  std::vector<NodeCores> nodes;
  for (const NumaNode& node : topology.nodes()) {
    std::vector<int> here;
    std::ranges::set_intersection(node.cpus, usable, std::back_inserter(here));
    if (!here.empty()) nodes.push_back(node_of(node.number, std::move(here)));
  }
  if (nodes.empty()) nodes.push_back(node_of(0, {usable.begin(), usable.end()}));
  return nodes;
}

Result<RankBinding> plan_binding(BindMode mode, int ranks, const std::string& pretended) {
  if (!looks_at_nodes(mode, ranks)) return RankBinding{};
  const auto topology = host_topology(pretended);
  if (!topology && mode == BindMode::automatic && pretended.empty())
    return RankBinding{{}, fmt::format("ranks are bound to no NUMA node: {}", topology.status().message())};
  if (!topology) return topology.status();
  const std::vector<int> usable = usable_cpus();
  if (usable.empty()) return Status::invalid("the system does not say on which processors this process may run");
  return bind_ranks(mode, ranks, cores_by_node(*topology, usable));
}

}  // namespace unisono::cli

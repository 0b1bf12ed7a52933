#include "base/host_topology.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

namespace unisono {

std::optional<int> HostTopology::node_of(std::span<const int> cpus) const {
  if (cpus.empty()) return std::nullopt;
  for (const NumaNode& node : nodes_)
    if (std::includes(node.cpus.begin(), node.cpus.end(), cpus.begin(), cpus.end())) return node.number;
  return std::nullopt;
}

std::string ranges_text(std::span<const int> numbers) {
  std::string text;
  for (std::size_t begin = 0; begin < numbers.size();) {
    std::size_t end = begin + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) end++;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[begin]);
    if (end - begin > 1) text += fmt::format("-{}", numbers[end - 1]);
    begin = end;
  }
  return text;
}

std::string to_text(const HostTopology& topology) {
  if (topology.nodes().empty()) return "one node";
  std::string text;
  for (const NumaNode& node : topology.nodes())
    text += fmt::format("{}node {}: processors {}", text.empty() ? "" : "; ", node.number, ranges_text(node.cpus));
  return text;
}

std::vector<int> usable_cpus() {
  // Large enough for any machine: the kernel refuses a mask that is too small for it.
  constexpr int kMost = 1 << 16;
  std::vector<cpu_set_t> mask(kMost / CPU_SETSIZE);
  const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, bytes, mask.data()) != 0) return cpus;
  for (int cpu = 0; cpu < kMost; cpu++)
    if (CPU_ISSET_S(cpu, bytes, mask.data())) cpus.push_back(cpu);
  return cpus;
}

}  // namespace unisono

#include "group/home_node.h"

#include <fmt/format.h>

namespace unisono::detail {

namespace {

HostTopology topology_of(const Config& config, const Logger& log) {
  if (!config.topology.empty()) {
    const auto pretended = synthetic_topology(config.topology);
    if (!pretended) throw_status(pretended.status().with_context("UNISONO_TOPOLOGY"));
    log.warn(fmt::format("the host's NUMA nodes are those of UNISONO_TOPOLOGY, not its own: {}", to_text(*pretended)));
    return *pretended;
  }
  const auto& found = this_host_topology();
  if (found) return *found;
  log.warn(fmt::format("memory is placed on no NUMA node in particular: {}", found.status().message()));
  return {};
}

}  // namespace

std::optional<int> home_node(const Config& config, const Logger& log) {
  const HostTopology topology = topology_of(config, log);
  if (topology.nodes().empty()) return std::nullopt;
  const std::vector<int> cpus = usable_cpus();
  const auto node = topology.node_of(cpus);
  if (!node)
    log.info(
        fmt::format("memory is placed on no NUMA node in particular: processors {} are not all on one node ({}). Bind "
                    "each rank to the cores of one, for example with taskset or numactl",
                    ranges_text(cpus), to_text(topology)));
  return node;
}

}  // namespace unisono::detail

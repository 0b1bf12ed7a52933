#include "group/home_node.h"

#include <fmt/format.h>

namespace unisono::detail {

namespace {

/// None when nobody can tell.
std::optional<HostTopology> topology_of(const Config& config, const Logger& log) {
  const auto topology = host_topology(config.topology);
  if (!config.topology.empty()) {
    throw_status(topology.status());
    log.warn(fmt::format("the host's NUMA nodes are those of UNISONO_TOPOLOGY, not its own: {}", to_text(*topology)));
  }
  if (topology) return *topology;
  log.warn(fmt::format("memory is placed on no NUMA node in particular: {}", topology.status().message()));
  return std::nullopt;
}

}  // namespace

HomeNode home_node(const Config& config, const Logger& log) {
  const auto topology = topology_of(config, log);
  if (!topology) return {std::nullopt, true};
  if (topology->nodes().empty()) return {};
  const std::vector<int> cpus = usable_cpus();
  const auto node = topology->node_of(cpus);
  if (!node)
    log.info(
        fmt::format("memory is placed on no NUMA node in particular: processors {} are not all on one node ({}). Bind "
                    "each rank to one, for example with unisono run --bind node or numactl",
                    ranges_text(cpus), to_text(*topology)));
  return {node, !node.has_value()};
}

}  // namespace unisono::detail

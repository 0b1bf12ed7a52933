#include "group/home_node.h"

#include <fmt/format.h>

namespace unisono::detail {

namespace {

/// None when nobody can tell.
std::optional<HostTopology> topology_of(const Config& config, const Logger& log) {
  if (!config.topology.empty()) {
    const auto pretended = synthetic_topology(config.topology);
    if (!pretended) throw_status(pretended.status().with_context("UNISONO_TOPOLOGY"));
    log.warn(fmt::format("the host's NUMA nodes are those of UNISONO_TOPOLOGY, not its own: {}", to_text(*pretended)));
    return *pretended;
  }
  const auto& found = this_host_topology();
  if (found) return *found;
  log.warn(fmt::format("memory is placed on no NUMA node in particular: {}", found.status().message()));
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

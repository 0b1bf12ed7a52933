/// What hwloc knows of the host; in a build without it, the errors that say so.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <memory>

#include "base/host_topology.h"

#ifdef UNISONO_HAVE_HWLOC
#include <hwloc.h>
#endif

namespace unisono {

#ifdef UNISONO_HAVE_HWLOC

namespace {

using Handle = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

/// No caches, no devices, no distances; and hwloc is not to visit every core to ask it who it is. Packages and groups stay: without them hwloc 2.9
/// gives every node the processors of the whole machine.
Status keep_to_nodes(hwloc_topology_t topology) {
  unsigned long flags = 0;
#if HWLOC_API_VERSION >= 0x00020800
  flags |= HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS | HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS;
#endif
  if (hwloc_topology_set_flags(topology, flags) != 0 ||
      hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE) != 0 ||
      hwloc_topology_set_cache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE) != 0 ||
      hwloc_topology_set_icache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE) != 0 ||
      hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86") != 0)
    return Status::system("hwloc cannot be set up", errno);
  return {};
}

std::vector<NumaNode> nodes_of(hwloc_topology_t topology) {
  std::vector<NumaNode> nodes;
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object)) != nullptr;) {
    NumaNode node{static_cast<int>(object->os_index), {}};
    for (int cpu = -1; (cpu = hwloc_bitmap_next(object->cpuset, cpu)) >= 0;) node.cpus.push_back(cpu);
    if (!node.cpus.empty()) nodes.push_back(std::move(node));
  }
  std::stable_sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
  std::vector<NumaNode> first;
  for (NumaNode& node : nodes)
    if (std::none_of(first.begin(), first.end(), [&](const NumaNode& other) { return other.cpus == node.cpus; }))
      first.push_back(std::move(node));
  return first.size() > 1 ? first : std::vector<NumaNode>{};
}

/// `synthetic` null: this host.
Result<HostTopology> load(const char* synthetic) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return Status::system("hwloc cannot be started", errno);
  const Handle topology(made, &hwloc_topology_destroy);
  UNISONO_TRY(keep_to_nodes(topology.get()));
  if (synthetic != nullptr && hwloc_topology_set_synthetic(topology.get(), synthetic) != 0)
    return Status::invalid(fmt::format(
        "hwloc does not understand the topology \"{}\": write it as pack:2 numa:1 core:64 pu:1", synthetic));
  if (hwloc_topology_load(topology.get()) != 0) return Status::system("hwloc cannot read the topology", errno);
  return HostTopology(nodes_of(topology.get()));
}

}  // namespace

bool has_hwloc() noexcept { return true; }

Result<HostTopology> synthetic_topology(const std::string& description) { return load(description.c_str()); }

#else

namespace {
Result<HostTopology> load(const char*) {
  return Status::invalid("this unisono was built without hwloc (on Debian: libhwloc-dev)");
}
}  // namespace

bool has_hwloc() noexcept { return false; }

Result<HostTopology> synthetic_topology(const std::string&) { return load(nullptr); }

#endif

namespace {
/// Most hosts are one node, and one small file says so. What it does not say, hwloc is asked.
bool one_node_only() {
  std::ifstream file("/sys/devices/system/node/has_cpu");
  std::string nodes;
  return std::getline(file, nodes) && !nodes.empty() && nodes.find_first_of(",-") == std::string::npos;
}
}  // namespace

const Result<HostTopology>& this_host_topology() {
  // A constant of the machine: read once, never changed.
  static const Result<HostTopology> topology = one_node_only() ? Result(HostTopology()) : load(nullptr);
  return topology;
}

}  // namespace unisono

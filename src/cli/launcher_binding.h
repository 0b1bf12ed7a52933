#pragma once
/// On which processors the launcher lets each rank run. A rank that stays on one NUMA node can have its memory there, and groups can run
/// plans over nodes (docs/design/0010-numa.md); one with cores of its own is not moved about by the system.

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/host_topology.h"
#include "base/status.h"

namespace unisono::cli {

enum class BindMode : unsigned char {
  automatic,  ///< node, where that is known to pay: several nodes, and kBindFrom ranks or more; else none
  none,       ///< ranks run wherever the launcher may
  node,       ///< each rank on the processors of one NUMA node
  core        ///< each rank on its own whole cores, as many as its share is, of one node where there are ranks enough
};

/// So many ranks on several nodes run plans over nodes by the built-in table. Fewer may rather be near each other than near their own memory: nobody can tell for them.
inline constexpr int kBindFrom = 16;

/// For the option of commands that launch.
inline constexpr std::array kBindNames = {"auto", "none", "node", "core"};
inline constexpr const char* kBindHelp =
    "where ranks run; node: each on one NUMA node, so that its memory is there; core: each on cores of its own; none: "
    "anywhere; auto: node with 16 ranks or more on several nodes, else none";
/// One of kBindNames.
std::optional<BindMode> bind_mode_from_name(std::string_view name);

/// What this process may use of a NUMA node.
struct NodeCores {
  int number = 0;                       ///< the system's
  std::vector<std::vector<int>> cores;  ///< of each core the processors (hardware threads), ascending
  friend bool operator==(const NodeCores&, const NodeCores&) = default;
};

/// Where each rank of this host runs, and why.
struct RankBinding {
  std::vector<std::vector<int>> processors;  ///< of each local rank; empty: all run where the launcher may
  std::string line;                          ///< for the user, when ranks are bound; else empty
  friend bool operator==(const RankBinding&, const RankBinding&) = default;
};

/// Neighbours in rank together, nodes filled in proportion to their cores. `nodes` has at least one with at least one core. An error when
/// there are fewer cores than ranks that want their own.
Result<RankBinding> bind_ranks(BindMode mode, int ranks, std::span<const NodeCores> nodes);

/// The processors among `usable`, by node and core. Where the topology is one node, or knows none of them, they are one node with number 0.
std::vector<NodeCores> cores_by_node(const HostTopology& topology, std::span<const int> usable);

/// For this host, and the processors that this process may use; `pretended` is UNISONO_TOPOLOGY, or empty. An error too when nobody knows the nodes, and mode is node;
/// when it is automatic, nobody is bound then, which the line says.
Result<RankBinding> plan_binding(BindMode mode, int ranks, const std::string& pretended);

}  // namespace unisono::cli

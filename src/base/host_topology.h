#pragma once
/// Which processors of this host are next to which memory: its NUMA nodes.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace unisono {

/// A node with processors; memory without any (HBM, CXL) belongs to nobody here.
struct NumaNode {
  int number = 0;         ///< the system's
  std::vector<int> cpus;  ///< the system's numbers, ascending, at least one
  friend bool operator==(const NumaNode&, const NumaNode&) = default;
};

/// Thread-safety: a value.
class HostTopology {
 public:
  /// Of a host that is one node, or of which nobody knows more.
  HostTopology() = default;
  explicit HostTopology(std::vector<NumaNode> nodes) : nodes_(std::move(nodes)) {}

  /// In the order of their numbers; of nodes with the same processors (memory of two kinds) only the first. Empty: one node.
  const std::vector<NumaNode>& nodes() const noexcept { return nodes_; }
  /// The number of the node that has all of these processors; none when they are on several, or on one that is not known.
  std::optional<int> node_of(std::span<const int> cpus) const;
  friend bool operator==(const HostTopology&, const HostTopology&) = default;

 private:
  std::vector<NumaNode> nodes_;
};

/// "node 0: processors 0-63, 128-191; node 1: processors 64-127, 192-255"; "one node".
std::string to_text(const HostTopology& topology);
/// {0, 1, 2, 5} as "0-2,5".
std::string ranges_text(std::span<const int> numbers);
/// And back; empty for anything else, and for numbers that no processor has.
std::vector<int> parse_ranges(std::string_view text);

/// This host's, as hwloc finds it. It asks hwloc at the first call in a process (milliseconds, on large machines some tens), and not at all
/// where the system knows of one node only. An error when hwloc fails, or is not part of this build.
const Result<HostTopology>& this_host_topology();

/// A topology that is not there, in hwloc's syntax: "pack:2 numa:1 core:64 pu:1".
Result<HostTopology> synthetic_topology(const std::string& description);

/// This host's, or the one that `pretended` describes (UNISONO_TOPOLOGY, which errors then name) if it is not empty.
Result<HostTopology> host_topology(const std::string& pretended);

/// Whether hwloc is part of this build.
bool has_hwloc() noexcept;

/// The processors that the calling thread may run on, ascending.
std::vector<int> usable_cpus();

/// From now on the calling thread, and what it starts, runs on these processors only. An error when the system refuses, or none of them is there.
Status run_on_cpus(std::span<const int> cpus);

/// Moves the calling thread to that processor, which it may run on, and leaves it to the system again where it runs: what usable_cpus() says stays the same. False when
/// the system refuses.
bool move_to_cpu(int cpu) noexcept;

}  // namespace unisono

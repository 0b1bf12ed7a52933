#pragma once
/// On which NUMA node of its host this process is, and its memory should be.

#include <optional>

#include "base/host_topology.h"
#include "base/log.h"
#include "unisono/config.hpp"

namespace unisono::detail {

/// Where the processors are that the calling thread may use.
struct HomeNode {
  std::optional<int> node;  ///< the system's number of the one that has them all; none where the host is one node
  bool spread = false;      ///< on several, or nobody can tell: then memory may lie on several, too
};

/// With a line in the log where they are spread. Throws InvalidArgument when UNISONO_TOPOLOGY is not a topology.
HomeNode home_node(const Config& config, const Logger& log);

}  // namespace unisono::detail

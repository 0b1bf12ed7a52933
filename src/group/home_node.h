#pragma once
/// On which NUMA node of its host this process is, and its memory should be.

#include <optional>

#include "base/host_topology.h"
#include "base/log.h"
#include "unisono/config.hpp"

namespace unisono::detail {

/// The system's number of the node that has all the processors that the calling thread may use; nothing where the host is one node, and, with a
/// line in the log, where they are on several or nobody can tell. Throws InvalidArgument when UNISONO_TOPOLOGY is not a topology.
std::optional<int> home_node(const Config& config, const Logger& log);

}  // namespace unisono::detail

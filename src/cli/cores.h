#pragma once
/// How much processor this process may use: not what the machine has.

#include <optional>

namespace unisono::cli {

/// Cores in this process's affinity mask.
int affinity_cores();
/// Cores' worth of time that control groups allow (cgroup v2 cpu.max, v1 cpu.cfs_quota_us); nothing when there is no limit.
std::optional<double> quota_cores();
/// The smaller of both, at least 1.
int usable_cores();

}  // namespace unisono::cli

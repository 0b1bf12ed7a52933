#pragma once
/// How much memory a process may still take.

#include <cstdint>
#include <filesystem>

namespace unisono {

/// Bytes that can be taken before the system has to swap, or ends somebody: what the machine has available, and what the limits of this process's
/// cgroups (v2 and v1) leave. What the page cache holds and can give back counts as free. Where nothing is known: all there can be. `root`: where /proc and /sys
/// are, for tests. Any thread.
std::uint64_t free_memory(const std::filesystem::path& root = "/");

}  // namespace unisono

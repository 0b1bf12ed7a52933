#pragma once
/// Whether a device may know where pages of this process are.

#include <filesystem>
#include <string>

namespace unisono {

/// Why pages of this process should stay where they are: some are pinned (RDMA, io_uring's buffers), or it has a device open that may have been given
/// memory (a GPU, an RDMA card), which nobody but its driver could tell. Empty when there is nothing of that; terminals and devices like
/// /dev/null do not count. `root`: where /proc is, for tests. Reads /proc/self/fd: some tens of microseconds. Any thread.
std::string device_with_memory(const std::filesystem::path& root = "/");

}  // namespace unisono

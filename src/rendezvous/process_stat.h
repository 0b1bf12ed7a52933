#pragma once
/// What the kernel says of a process in /proc/PID/stat.

#include <cstdint>
#include <optional>
#include <string>

namespace unisono::rendezvous {

/// The fields of proc(5) that tell processes apart. Thread-safety: a value.
struct ProcessStat {
  std::string name;              ///< the kernel's: the program's, at most 15 characters
  char state = '?';              ///< Z and X: it has ended
  std::int64_t parent = 0;       ///< its pid
  std::uint64_t start_time = 0;  ///< clock ticks after boot; with the pid it names one process of one boot
};

/// Nothing: the process is not there, or out of sight.
std::optional<ProcessStat> process_stat(std::int64_t pid);

/// Whether the process that had `pid` and `start_time` has ended; a zombie has. What cannot be seen
/// has not.
bool process_has_ended(std::int64_t pid, std::uint64_t start_time) noexcept;

}  // namespace unisono::rendezvous

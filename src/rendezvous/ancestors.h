#pragma once
/// The processes above this one, and the environments that they were started with: what tells which
/// of two launchers came last.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace unisono::rendezvous {

/// One process above this one. Thread-safety: a value.
struct Ancestor {
  std::int64_t pid = 0;
  std::uint64_t start_time = 0;  ///< clock ticks after boot; with `pid` it names one process of one boot
  std::string name;              ///< the kernel's: the program's, at most 15 characters
  /// What the process was started with; later changes (`export` in a shell) are not in it. Nothing:
  /// it is not ours to read (another user's process).
  std::optional<std::map<std::string, std::string>> environment;
};

/// From the parent upwards, as far as /proc and the pid namespace go. Tests give their own.
using Ancestry = std::function<std::vector<Ancestor>()>;

/// This process's ancestors, read from /proc when the function is called.
Ancestry process_ancestry();

}  // namespace unisono::rendezvous

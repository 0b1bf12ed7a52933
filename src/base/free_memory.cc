#include "base/free_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace unisono {

namespace {

namespace fs = std::filesystem;

/// The number in a file that has nothing else; none when it is not there, or says "max".
std::optional<std::uint64_t> number(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t value = 0;
  return in >> value ? std::optional(value) : std::nullopt;
}

/// The number behind `key` in a file of lines "key value"; 0 when there is none.
std::uint64_t entry(const fs::path& file, std::string_view key) {
  std::ifstream in(file);
  std::string word;
  for (std::uint64_t value = 0; in >> word;) {
    if (word == key && in >> value) return value;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

/// What names of files and entries one version of cgroups has.
struct Names {
  const char *limit, *used, *cache;
};

/// What the limits of `group`, a path like /a/b below `mount`, and of all above it leave.
std::uint64_t left(const fs::path& mount, const fs::path& group, const Names& names) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (fs::path path = group.relative_path();; path = path.parent_path()) {
    const fs::path folder = mount / path;
    const auto limit = number(folder / names.limit), used = number(folder / names.used);
    if (limit && used) {
      const std::uint64_t cache = entry(folder / "memory.stat", names.cache), taken = *used - std::min(*used, cache);
      least = std::min(least, *limit - std::min(*limit, taken));
    }
    if (path.empty()) return least;
  }
}

}  // namespace

std::uint64_t free_memory(const fs::path& root) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  if (const std::uint64_t kib = entry(root / "proc/meminfo", "MemAvailable:"); kib > 0) least = kib * 1024;
  std::ifstream groups(root / "proc/self/cgroup");  // lines "hierarchy:controllers:path"
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    const fs::path mount = root / "sys/fs/cgroup";
    if (controllers.empty())
      least = std::min(least, left(mount, path, {"memory.max", "memory.current", "inactive_file"}));
    else if (controllers == "memory")
      least = std::min(least, left(mount / "memory", path,
                                   {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}));
  }
  return least;
}

}  // namespace unisono

#include "base/device_memory.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstdint>
#include <fstream>

namespace unisono {

namespace {

namespace fs = std::filesystem;

/// Devices that move bytes when they are asked to, and keep no page (Documentation/admin-guide/devices.txt of Linux): /dev/null and its like, terminals.
bool harmless(unsigned major) noexcept {
  return major == 1 || major == 4 || major == 5 || (major >= 136 && major <= 143);
}

bool pages_are_pinned(const fs::path& status) {
  std::ifstream in(status);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmPin:")) return line.find_first_of("123456789") != std::string::npos;
  return false;
}

}  // namespace

std::string device_with_memory(const fs::path& root) {
  const fs::path self = root / "proc/self";
  if (pages_are_pinned(self / "status")) return "pages of this process are pinned";
  std::error_code error;
  for (fs::directory_iterator at(self / "fd", error), end; !error && at != end; at.increment(error)) {
    struct stat about{};
    if (::stat(at->path().c_str(), &about) != 0 || !S_ISCHR(about.st_mode) || harmless(major(about.st_rdev))) continue;
    std::error_code unnamed;
    return fmt::format("this process has a device open ({})", fs::read_symlink(at->path(), unnamed).string());
  }
  return error ? "nobody can tell which devices this process has open: " + error.message() : std::string();
}

}  // namespace unisono

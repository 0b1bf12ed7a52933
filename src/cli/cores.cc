#include "cli/cores.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "base/host_topology.h"

namespace unisono::cli {
namespace {

/// This process's path in a cgroup hierarchy: of v2 for "", else of the v1 controller.
std::string cgroup_path(const std::string& controller) {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {  // "0::/a/b", "4:cpu,cpuacct:/a"
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controller.empty() ? names == ",," : names.find("," + controller + ",") != std::string::npos)
      return line.substr(second + 1);
  }
  return "/";
}

std::optional<double> read_v2(const std::string& directory) {
  std::ifstream file(directory + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return std::nullopt;
  return std::stod(quota) / period;
}

std::optional<double> read_v1(const std::string& directory) {
  std::ifstream quota_file(directory + "/cpu.cfs_quota_us"), period_file(directory + "/cpu.cfs_period_us");
  double quota = 0, period = 0;
  if (!(quota_file >> quota) || !(period_file >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

/// The tightest limit from `path` up to the root: each group is limited by those above it too.
std::optional<double> tightest(const std::string& mount, std::string path,
                               std::optional<double> (*read)(const std::string&)) {
  std::optional<double> least;
  for (;;) {
    if (const auto here = read(mount + path)) least = least ? std::min(*least, *here) : *here;
    if (path.empty() || path == "/") return least;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

}  // namespace

int affinity_cores() {
  const auto n = static_cast<int>(usable_cpus().size());
  return std::max(1, n > 0 ? n : static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

std::optional<double> quota_cores() {
  const auto v2 = tightest("/sys/fs/cgroup", cgroup_path(""), read_v2);
  const auto v1 = tightest("/sys/fs/cgroup/cpu", cgroup_path("cpu"), read_v1);
  if (v1 && v2) return std::min(*v1, *v2);
  return v2 ? v2 : v1;
}

int usable_cores() {
  const int cores = affinity_cores();
  const auto quota = quota_cores();
  return quota ? std::clamp(static_cast<int>(*quota), 1, cores) : cores;
}

}  // namespace unisono::cli

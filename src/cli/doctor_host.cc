/// Processor, memory and limits.

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "base/host_topology.h"
#include "cli/cores.h"
#include "cli/doctor_probes.h"

namespace unisono::cli {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// What follows "KEY :" in a file of such lines, the first time.
std::string field(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const auto at = line.find_first_not_of(" \t:", key.size());
    return at == std::string::npos ? "" : line.substr(at);
  }
  return "";
}

std::string gibibytes(double bytes) { return fmt::format("{:.1f} GiB", bytes / (1u << 30)); }

/// The vector units that unisono's kernels know.
void examine_vectors(Findings& findings) {
  Finding f{"processor", "vector units", Health::good, "", ""};
#if defined(__x86_64__)
  std::istringstream words(field("/proc/cpuinfo", "flags"));
  const std::set<std::string> flags{std::istream_iterator<std::string>(words), {}};
  for (const auto& [flag, name] : {std::pair{"sse4_2", "SSE4.2"},
                                   {"avx2", "AVX2"},
                                   {"f16c", "F16C"},
                                   {"avx512f", "AVX-512"},
                                   {"avx512_bf16", "AVX-512 BF16"},
                                   {"avx512_fp16", "AVX-512 FP16"}})
    if (flags.contains(flag)) f.value += (f.value.empty() ? "" : ", ") + std::string(name);
  if (!flags.contains("sse4_2")) {
    f.health = Health::missing;
    f.value = "none of x86-64-v2";
    f.advice = "a processor (or a virtual machine's processor model) with SSE4.2 is needed";
  } else if (!flags.contains("avx2")) {
    f.health = Health::warning;
    f.advice =
        "reductions run on 128-bit vectors; a virtual machine may be hiding AVX2 (choose the host's processor model)";
  }
#else
  f.value = field("/proc/cpuinfo", "Features");
#endif
  findings.push_back(f);
}

void examine_clock(Findings& findings) {
  constexpr int kReads = 20000;
  constexpr double kSlow = 250;  // nanoseconds: more means a system call each time
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kReads; i++) (void)std::chrono::steady_clock::now().time_since_epoch().count();
  const double each =
      std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / kReads;
  Finding f{"processor", "clock", Health::good, "", ""};
  f.value = fmt::format("{}, {:.0f} ns to read",
                        first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource"), each);
  if (each > kSlow) {
    f.health = Health::warning;
    f.advice =
        "reading the time is slow here, which small messages feel: use the clock source tsc if the machine has it";
  }
  findings.push_back(f);
}

void add_limit(Findings& findings, const char* name, int which, double enough, const std::string& advice) {
  rlimit l{};
  Finding f{"limits", name, Health::good, "unknown", ""};
  if (::getrlimit(static_cast<__rlimit_resource_t>(which), &l) == 0) {
    const bool unlimited = l.rlim_cur == RLIM_INFINITY;
    f.value = unlimited ? "unlimited"
                        : fmt::format("{}{}", l.rlim_cur,
                                      l.rlim_max == RLIM_INFINITY ? " (may be raised without limit)"
                                                                  : fmt::format(" (may be raised to {})", l.rlim_max));
    if (!unlimited && static_cast<double>(l.rlim_cur) < enough) {
      f.health = Health::warning;
      f.advice = advice;
    }
  }
  findings.push_back(f);
}

/// Where a rank's memory should lie is known only of ranks that stay on one node.
void examine_nodes(Findings& findings) {
  const auto& topology = this_host_topology();
  Finding f{"processor", "NUMA nodes", Health::good, "", ""};
  if (!topology) {
    f.health = Health::warning;
    f.value = "unknown";
    f.advice = topology.status().message() + ": build it with hwloc, so that memory is placed next to the ranks";
  } else {
    f.value = to_text(*topology);
    if (!topology->nodes().empty()) {
      f.health = Health::note;
      f.advice = "bind each rank to one node (unisono run --bind node, srun --cpu-bind, mpirun --bind-to, numactl)";
    }
  }
  findings.push_back(f);
}

}  // namespace

void examine_processor(Findings& findings) {
  utsname system{};
  (void)::uname(&system);
  findings.push_back({"processor", "system", Health::good,
                      fmt::format("{} {} {}", system.sysname, system.release, system.machine), ""});
  const std::string model = field("/proc/cpuinfo", "model name");
  if (!model.empty()) findings.push_back({"processor", "model", Health::good, model, ""});
  const int allowed = affinity_cores();
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  const auto quota = quota_cores();
  findings.push_back(
      {"processor", "cores", Health::good,
       allowed < online ? fmt::format("{} of {} (affinity mask)", allowed, online) : fmt::format("{}", allowed), ""});
  if (quota && *quota < allowed)
    findings.push_back(
        {"processor", "quota", Health::warning, fmt::format("{:.2g} cores' worth of time (control group)", *quota),
         fmt::format("start at most {} ranks with one thread each: beyond the quota all of them are stopped together",
                     usable_cores())});
  examine_nodes(findings);
  examine_vectors(findings);
  examine_clock(findings);
}

void examine_memory(Findings& findings) {
  const auto kibibytes = [](const char* key) {
    return std::strtod(field("/proc/meminfo", key).c_str(), nullptr) * 1024;
  };
  const double available = kibibytes("MemAvailable:");
  constexpr double kEnough = 512.0 * (1u << 20);
  Finding f{"memory", "memory", Health::good,
            fmt::format("{} of {} available", gibibytes(available), gibibytes(kibibytes("MemTotal:"))), ""};
  if (available < kEnough) {
    f.health = Health::warning;
    f.advice = "staging buffers are real memory: a few MiB a rank, and as much as is reduced at once";
  }
  findings.push_back(f);
  const std::string limit = first_line("/sys/fs/cgroup/memory.max");
  if (!limit.empty() && limit != "max")
    findings.push_back(
        {"memory", "control group", Health::note,
         fmt::format("at most {} (shared memory counts)", gibibytes(std::strtod(limit.c_str(), nullptr))), ""});
  struct statvfs shm{};
  const bool mounted = ::statvfs("/dev/shm", &shm) == 0;
  findings.push_back(
      {"memory", "/dev/shm", Health::note,
       mounted ? fmt::format("{} (not used: memory is shared through memfd)",
                             gibibytes(static_cast<double>(shm.f_blocks) * static_cast<double>(shm.f_frsize)))
               : "not there, and not needed",
       ""});
}

void examine_limits(Findings& findings) {
  add_limit(findings, "open files", RLIMIT_NOFILE, 1024,
            "several descriptors a rank are needed: raise it with `ulimit -n 4096`");
  add_limit(findings, "locked memory", RLIMIT_MEMLOCK, 0, "");
  add_limit(findings, "address space", RLIMIT_AS, 64.0 * (1u << 30),
            "each rank reserves 256 MiB of addresses for its segment, and maps those of the others: lift it with "
            "`ulimit -v unlimited`");
  add_limit(findings, "processes", RLIMIT_NPROC, 256, "ranks and their threads count: raise it with `ulimit -u`");
}

}  // namespace unisono::cli

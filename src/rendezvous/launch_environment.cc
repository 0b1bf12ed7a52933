#include "rendezvous/launch_environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <functional>
#include <limits>

#include "rendezvous/crypto.h"

namespace unisono::rendezvous {
namespace {

constexpr int kMaxRanks = 1 << 24;

std::string text_of(const Environment& environment, const char* name) { return environment(name).value_or(""); }

/// RANK and WORLD_SIZE, or another launcher's pair: both or none.
Result<bool> read_pair(const Environment& environment, const char* rank_name, const char* size_name, World& world) {
  std::int64_t rank = 0, size = 0;
  const auto has_rank = read_integer(environment, rank_name, 0, kMaxRanks, rank);
  if (!has_rank) return has_rank.status();
  const auto has_size = read_integer(environment, size_name, 1, kMaxRanks, size);
  if (!has_size) return has_size.status();
  if (!*has_rank && !*has_size) return false;
  if (!*has_rank)
    return Status::invalid(fmt::format("{}={} is set, and {} is not: set it to this process's rank, or unset both",
                                       size_name, size, rank_name));
  if (!*has_size)
    return Status::invalid(fmt::format("{}={} is set, and {} is not: set it to the number of ranks, or unset both",
                                       rank_name, rank, size_name));
  if (rank >= size)
    return Status::invalid(
        fmt::format("{}={} with {}={}: ranks go from 0 to {}", rank_name, rank, size_name, size, size - 1));
  world.rank = static_cast<int>(rank);
  world.size = static_cast<int>(size);
  return true;
}

/// The first of `names` that is set, as the number of ranks on this host.
Status read_local_size(const Environment& environment, std::initializer_list<const char*> names, World& world) {
  for (const char* name : names) {
    std::int64_t n = 0;
    const auto has = read_integer(environment, name, 1, kMaxRanks, n);
    if (!has) return has.status();
    if (!*has) continue;
    if (n > world.size)
      return Status::invalid(fmt::format("{}={} is more than the {} ranks of the job", name, n, world.size));
    world.local_size = static_cast<int>(n);
    return {};
  }
  return {};
}

/// Where to meet when the launcher says no more than who is who: at MASTER_ADDR if set, on one host under a name that is the
/// job's. Otherwise nobody can know.
Status meet_by_job(const Environment& environment, World& world) {
  if (world.size == 1) return {};
  if (environment("MASTER_ADDR")) {
    auto method = master_address(environment);
    if (!method) return method.status();
    world.init_method = std::move(*method);
    return {};
  }
  if (world.local_size == world.size) {
    world.init_method = "unix:@unisono-" + short_hash(fmt::format("{} {}", ::geteuid(), world.job));
    return {};
  }
  return Status::invalid(
      fmt::format("{} started {} ranks on several hosts and does not say where rank 0 is: export MASTER_ADDR and "
                  "MASTER_PORT, or UNISONO_INIT_METHOD=tcp://HOST:PORT or file://PATH, to all ranks",
                  world.launcher, world.size));
}

/// RANK without LOCAL_RANK comes from operators that count pods: as many processes as pods is fine, more is a job for a
/// launcher in each pod.
Status check_for_node_counts(const Environment& environment) {
  if (environment("LOCAL_RANK")) return {};
  for (const char* name : {"PET_NPROC_PER_NODE", "NPROC_PER_NODE"}) {
    const std::string each = text_of(environment, name);
    if (each.empty() || each == "1") continue;
    return Status::invalid(
        fmt::format("{}=\"{}\" without LOCAL_RANK: the cluster's RANK and WORLD_SIZE count nodes, not "
                    "processes. Start the program on each node with `unisono run -n {} --nnodes N --node-rank R "
                    "--rdzv HOST:PORT -- ...` or torchrun",
                    name, each, each));
  }
  return {};
}

Result<bool> from_unisono(const Environment& environment, World& world) {
  const auto found = read_pair(environment, "UNISONO_RANK", "UNISONO_SIZE", world);
  if (!found || !*found) return found;
  world.launcher = "unisono";
  UNISONO_TRY(read_local_size(environment, {"UNISONO_LOCAL_SIZE"}, world));
  if (world.size > 1 && text_of(environment, "UNISONO_INIT_METHOD").empty()) {
    auto method = master_address(environment);
    if (!method)
      return method.status().with_context(
          fmt::format("UNISONO_RANK={} is set without UNISONO_INIT_METHOD", world.rank));
    world.init_method = std::move(*method);
  }
  return true;
}

Result<bool> from_torchrun(const Environment& environment, World& world) {
  const auto found = read_pair(environment, "RANK", "WORLD_SIZE", world);
  if (!found || !*found) return found;
  UNISONO_TRY(check_for_node_counts(environment));
  const std::string run_id = text_of(environment, "TORCHELASTIC_RUN_ID");
  world.launcher = run_id.empty() ? "environment" : "torchrun";
  if (!run_id.empty())  // a restart is another job: ranks of the attempt before may still be dying
    world.job = fmt::format("torchrun-{}-{}", run_id, text_of(environment, "TORCHELASTIC_RESTART_COUNT"));
  UNISONO_TRY(read_local_size(environment, {"LOCAL_WORLD_SIZE"}, world));
  if (world.size > 1 && text_of(environment, "UNISONO_INIT_METHOD").empty()) {
    auto method = master_address(environment);
    if (!method)
      return method.status().with_context(fmt::format("RANK={} and WORLD_SIZE={} are set", world.rank, world.size));
    world.init_method = std::move(*method);
  }
  return true;
}

Result<bool> from_open_mpi(const Environment& environment, World& world) {
  const auto found = read_pair(environment, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", world);
  if (!found || !*found) return found;
  world.launcher = "openmpi";
  world.job = "openmpi-" + text_of(environment, "PMIX_NAMESPACE");
  UNISONO_TRY(read_local_size(environment, {"OMPI_COMM_WORLD_LOCAL_SIZE"}, world));
  return true;
}

/// "node[01-04,07],x3" -> "node01"
std::string first_host(std::string_view list) {
  const auto bracket = list.find('[');
  const auto comma = list.find(',');
  if (bracket == std::string_view::npos || comma < bracket) return std::string(list.substr(0, comma));
  const auto inside = list.substr(bracket + 1);
  return std::string(list.substr(0, bracket)) + std::string(inside.substr(0, inside.find_first_of(",-]")));
}

/// Only within a step (srun): a shell of sbatch or salloc has SLURM_NTASKS too, and is one process.
Result<bool> from_slurm(const Environment& environment, World& world) {
  const std::string name = text_of(environment, "SLURM_JOB_NAME");
  if (!environment("SLURM_STEP_NUM_TASKS") || name == "bash" || name == "interactive") return false;
  const auto found = read_pair(environment, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", world);
  if (!found || !*found) return found;
  world.launcher = "slurm";
  world.job = fmt::format("slurm-{}.{}", text_of(environment, "SLURM_JOB_ID"), text_of(environment, "SLURM_STEP_ID"));
  if (text_of(environment, "SLURM_STEP_NUM_NODES") == "1") world.local_size = world.size;
  const std::string nodes = text_of(environment, "SLURM_STEP_NODELIST");
  if (world.size > 1 && world.local_size != world.size && !environment("MASTER_ADDR") && !nodes.empty()) {
    constexpr int kFirstPort = 20000, kPorts = 10000;
    const Digest digest = sha256(std::as_bytes(std::span(world.job)));
    const int port = kFirstPort + (static_cast<int>(digest[0]) * 256 + static_cast<int>(digest[1])) % kPorts;
    world.init_method = fmt::format("tcp://{}:{}", first_host(nodes), port);
  }
  return true;
}

/// MPICH's ranks have no common name in their environment, but a common ancestor: the proxy that started them.
std::string name_of_hydra_proxy() {
  long pid = ::getppid();
  const long parent = pid;
  for (int depth = 0; depth < 32 && pid > 1; depth++) {
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    std::string line;
    std::getline(file, line);
    const auto open = line.find('('), close = line.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close + 4 >= line.size()) break;
    if (line.substr(open + 1, close - open - 1).starts_with("hydra_pmi_proxy")) return std::to_string(pid);
    pid = std::strtol(line.c_str() + close + 4, nullptr, 10);  // ") S PPID"
  }
  return std::to_string(parent);
}

Result<bool> from_mpich(const Environment& environment, World& world) {
  const auto found = read_pair(environment, "PMI_RANK", "PMI_SIZE", world);
  if (!found || !*found) return found;
  world.launcher = "mpich";
  world.job = "mpich-" + name_of_hydra_proxy();
  UNISONO_TRY(read_local_size(environment, {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"}, world));
  return true;
}

/// Operators that start one process a node and expect it to start the others.
Status check_for_unused_launch(const Environment& environment) {
  for (const char* name : {"PET_NNODES", "PET_NPROC_PER_NODE"}) {
    const std::string value = text_of(environment, name);
    if (value.empty() || value == "1" || value == "1:1") continue;
    return Status::invalid(
        fmt::format("{}=\"{}\" is set, and this process has no RANK: those are settings of a launcher, which was not "
                    "used. Start the program with `unisono run` or torchrun",
                    name, value));
  }
  return {};
}

}  // namespace

Result<World> detect_world(const Environment& environment) {
  World world;
  const std::pair<const char*, Result<bool> (*)(const Environment&, World&)> launchers[] = {{"unisono", from_unisono},
                                                                                            {"torchrun", from_torchrun},
                                                                                            {"openmpi", from_open_mpi},
                                                                                            {"slurm", from_slurm},
                                                                                            {"mpich", from_mpich}};
  bool detected = false;
  for (const auto& [name, detect] : launchers) {
    const auto found = detect(environment, world);
    if (!found) return found.status();
    detected = *found;
    if (detected) break;
  }
  if (!detected) UNISONO_TRY(check_for_unused_launch(environment));
  if (const auto job = environment("UNISONO_JOB"); job && !job->empty()) world.job = *job;
  if (const auto method = environment("UNISONO_INIT_METHOD"); method && !method->empty())
    world.init_method = *method;
  else if (detected && world.init_method.empty())
    UNISONO_TRY(meet_by_job(environment, world));
  return world;
}

}  // namespace unisono::rendezvous

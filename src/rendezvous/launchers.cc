#include "rendezvous/launchers.h"

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/crypto.h"
#include "rendezvous/host_identity.h"

namespace unisono::rendezvous {
namespace {

bool is_torchrun(const Environment& e) { return !value_of(e, "TORCHELASTIC_RUN_ID").empty(); }
/// srun and others set PMI_RANK and PMI_SIZE too; hydra (MPICH's and Intel MPI's mpiexec) says
/// more.
bool is_hydra(const Environment& e) { return e("MPI_LOCALNRANKS").has_value(); }

/// RANK without LOCAL_RANK comes from operators that count pods: as many processes as pods is fine,
/// more is a job for a launcher in each pod.
Status check_for_node_counts(const Environment& environment) {
  if (environment("LOCAL_RANK")) return {};
  for (const char* name : {"PET_NPROC_PER_NODE", "NPROC_PER_NODE"}) {
    const std::string each = value_of(environment, name);
    if (each.empty() || each == "1") continue;
    return Status::invalid(
        fmt::format("{}=\"{}\" without LOCAL_RANK: the cluster's RANK and WORLD_SIZE count nodes, not "
                    "processes. Start the program on each node with `unisono run -n {} --nnodes N --node-rank R "
                    "--rdzv HOST:PORT -- ...` or torchrun",
                    name, each, each));
  }
  return {};
}

Status meet_at_master(const Environment& environment, World& world, const std::string& why) {
  if (world.size == 1 || !value_of(environment, "UNISONO_INIT_METHOD").empty()) return {};
  auto method = master_address(environment);
  if (!method) return method.status().with_context(why);
  world.init_method = std::move(*method);
  return {};
}

Status describe_unisono(const Surroundings& here, World& world) {
  UNISONO_TRY(read_local_size(here.environment, {"UNISONO_LOCAL_SIZE"}, world));
  return meet_at_master(here.environment, world,
                        fmt::format("UNISONO_RANK={} is set without UNISONO_INIT_METHOD", world.rank));
}

Status describe_environment(const Surroundings& here, World& world) {
  const Environment& environment = here.environment;
  UNISONO_TRY(check_for_node_counts(environment));
  if (is_torchrun(environment))  // a restart is another job: ranks of the attempt before may still be dying
    world.job = fmt::format("torchrun-{}-{}", value_of(environment, "TORCHELASTIC_RUN_ID"),
                            value_of(environment, "TORCHELASTIC_RESTART_COUNT"));
  UNISONO_TRY(read_local_size(environment, {"LOCAL_WORLD_SIZE"}, world));
  return meet_at_master(environment, world, fmt::format("RANK={} and WORLD_SIZE={} are set", world.rank, world.size));
}

/// What is the launcher's own name for a job may be that of another one in another container of
/// this host.
void name_after_this_host(World& world) {
  if (world.local_size == world.size) world.job += "-" + short_hash(launch_scope());
}

Status describe_open_mpi(const Surroundings& here, World& world) {
  world.job = "openmpi-" + value_of(here.environment, "PMIX_NAMESPACE");
  UNISONO_TRY(read_local_size(here.environment, {"OMPI_COMM_WORLD_LOCAL_SIZE"}, world));
  name_after_this_host(world);
  return {};
}

/// Ranks of hydra have no common name in their environment, but a common ancestor on each host: its
/// proxy.
std::string name_of_hydra_proxy(const std::vector<Ancestor>& ancestors) {
  for (const Ancestor& a : ancestors)
    if (a.name.starts_with("hydra_pmi_proxy")) return fmt::format("{}.{}", a.pid, a.start_time);
  return ancestors.empty() ? "unknown" : fmt::format("{}.{}", ancestors[0].pid, ancestors[0].start_time);
}

Status describe_hydra(const Surroundings& here, World& world) {
  UNISONO_TRY(read_local_size(here.environment, {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"}, world));
  world.job = "mpich";
  if (world.local_size == world.size) world.job += "-" + name_of_hydra_proxy(here.ancestors);
  name_after_this_host(world);
  return {};
}

Status describe_pmix(const Surroundings& here, World& world) {
  world.job = "pmix-" + value_of(here.environment, "PMIX_NAMESPACE");
  UNISONO_TRY(read_local_size(here.environment, {"UNISONO_LOCAL_SIZE"}, world));
  name_after_this_host(world);
  return {};
}

Status describe_indexed_job(const Surroundings& here, World& world) {
  UNISONO_TRY(read_local_size(here.environment, {"UNISONO_LOCAL_SIZE"}, world));
  return {};
}

constexpr Launcher kLaunchers[] = {
    {"unisono", "UNISONO_RANK", {"UNISONO_SIZE"}, {"UNISONO_JOB"}, true, nullptr, nullptr, describe_unisono},
    {"torchrun", "RANK", {"WORLD_SIZE"}, {"TORCHELASTIC_RUN_ID"}, true, is_torchrun, nullptr, describe_environment},
    {"environment", "RANK", {"WORLD_SIZE"}, {}, false, nullptr, nullptr, describe_environment},
    {"openmpi",
     "OMPI_COMM_WORLD_RANK",
     {"OMPI_COMM_WORLD_SIZE"},
     {"OMPI_FILE_LOCATION"},
     true,
     nullptr,
     nullptr,
     describe_open_mpi},
    {"mpich", "PMI_RANK", {"PMI_SIZE"}, {}, true, is_hydra, nullptr, describe_hydra},
    {"slurm",
     "SLURM_PROCID",
     {"SLURM_STEP_NUM_TASKS"},
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     false,
     is_slurm_step,
     nullptr,
     describe_slurm},
    {"pmi", "PMI_RANK", {"PMI_SIZE"}, {}, false, nullptr, nullptr, describe_hydra},
    {"pmix", "PMIX_RANK", {"UNISONO_SIZE"}, {"PMIX_NAMESPACE"}, false, nullptr, nullptr, describe_pmix},
    {"mlx",
     "MLX_RANK",
     {"MLX_WORLD_SIZE", "MLX_HOSTFILE", "MLX_IBV_DEVICES"},
     {},
     false,
     nullptr,
     count_mlx,
     describe_mlx},
    {"kubernetes",
     "JOB_COMPLETION_INDEX",
     {"UNISONO_SIZE", "WORLD_SIZE"},
     {},
     false,
     nullptr,
     nullptr,
     describe_indexed_job},
};

}  // namespace

std::span<const Launcher> launchers() { return kLaunchers; }

std::string value_of(const Environment& environment, const char* name) { return environment(name).value_or(""); }

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

int port_of_job(const std::string& job) {
  constexpr int kFirstPort = 20000, kPorts = 10000;
  const Digest digest = sha256(std::as_bytes(std::span(job)));
  return kFirstPort + (static_cast<int>(digest[0]) * 256 + static_cast<int>(digest[1])) % kPorts;
}

}  // namespace unisono::rendezvous
